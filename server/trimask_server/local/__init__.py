"""Clusters and databases on this machine, for demos and tests."""

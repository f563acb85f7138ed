"""A node's settings, which every other room may read."""

"""Importing an XLSForm into a study's definition: what can be carried over, and a list of what cannot."""

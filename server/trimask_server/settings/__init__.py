"""A node's settings, which every other package may read."""

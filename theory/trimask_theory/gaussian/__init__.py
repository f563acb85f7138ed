"""Pairs of normal laws, Gaussian differential privacy, and noise on a grid."""

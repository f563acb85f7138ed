"""The left provider: multiplies every component by one random orthogonal matrix, which lives for one try."""

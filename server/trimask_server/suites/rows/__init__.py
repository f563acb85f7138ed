"""TM2: blocks of rows, masked by chains of providers and published as A(X + C)."""

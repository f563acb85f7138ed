"""Verified moments: reports checked in shares, summed in shares, released with every provider's noise."""

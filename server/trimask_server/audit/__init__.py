"""The signed, hash-chained log of what a node did."""

"""The second moments that every fit reads, whichever suite published them."""

"""The right provider: holds one component of every row until its block is pooled."""

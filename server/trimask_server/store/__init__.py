"""What nodes keep on disk."""

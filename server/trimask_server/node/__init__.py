"""What every node has, whatever its role."""

"""What only the papers need: their tables run again, and a method they are compared with. Nothing of the product uses it."""

"""What only the papers need: statements that no part of the product uses."""

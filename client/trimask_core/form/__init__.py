"""What people are asked and shown, and how answers are read."""

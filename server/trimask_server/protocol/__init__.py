"""What parties of a study say to each other, as values and checks without I/O."""

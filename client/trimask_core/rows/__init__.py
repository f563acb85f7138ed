"""What the rows suite (TM2) needs on devices and nodes alike."""

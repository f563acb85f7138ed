"""What everything else stands on: randomness, noise, time, errors, and how values are written down."""

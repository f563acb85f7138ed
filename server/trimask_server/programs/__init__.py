"""The node programs: each role put together from its rooms, started and stopped."""

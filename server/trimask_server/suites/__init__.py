"""Ways of collecting: each suite in a folder of its own, behind one interface."""

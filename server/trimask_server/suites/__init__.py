"""Ways of collecting: one package a suite."""

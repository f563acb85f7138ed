"""How a study of each suite is made of its definition, and how its promises are recomputed: a module a suite."""

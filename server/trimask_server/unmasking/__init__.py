"""The unmasking node of a component: checks it, takes the right mask off, and blinds what it delivers."""

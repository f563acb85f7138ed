"""How much noise a masked release needs, exactly and enclosed."""

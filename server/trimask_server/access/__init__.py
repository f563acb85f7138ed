"""Who may call what, and who decides about studies."""

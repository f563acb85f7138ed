"""Private answers about a study with a budget, paid from it once and never refilled."""

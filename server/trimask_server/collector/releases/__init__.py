"""Private answers from the pooled factor of an exact study, paid from a budget that is never refilled."""

"""Models of the protocol, every order of events of which is tried (README.md beside it)."""

"""The owner's console: pages on the collector's HTTP port for people with the owner's token. No script is needed."""

"""The owner's console: pages on the collector's HTTP port for whoever has the owner's token. No script is needed."""

"""The `trimask-client` program: taking part in studies from a shell or a script."""

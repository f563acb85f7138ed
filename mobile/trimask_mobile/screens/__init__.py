"""One module and one kv file a screen."""

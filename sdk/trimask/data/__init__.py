"""Published datasets on this machine: pulled, verified, described, exported."""

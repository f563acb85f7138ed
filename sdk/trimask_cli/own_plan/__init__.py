"""A study planned by its own columns: what a release of it would show, and which clipping serves it best."""

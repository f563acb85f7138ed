"""The survey page as static files: what a host serves, its hash, its headers, and whether a host serves just that."""

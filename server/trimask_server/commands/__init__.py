"""What the `trimask` program gets from this distribution: modules with a `register(subparsers)`, named in pyproject.toml.

A command imports what it needs when it runs.
"""

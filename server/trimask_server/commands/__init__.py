"""What the `trimask` program gets from this distribution: one module a command.

Each has `register(subparsers)`, named in pyproject.toml, and imports what it needs when it runs.
"""

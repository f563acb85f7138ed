"""One module a command; each has `register(subparsers)` and imports what it needs when it runs."""

from __future__ import annotations

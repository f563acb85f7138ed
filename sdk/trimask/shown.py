"""How small results show in a notebook: their own words, escaped, since a study's owner chose some of them."""

from __future__ import annotations

from html import escape

__all__ = ["Shown"]


class Shown:
    """Gives a class the notebook form of its `str`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

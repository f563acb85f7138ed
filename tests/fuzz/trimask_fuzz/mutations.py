"""What becomes of a valid document: cut, repeated, overwritten, with a word pushed in, or a JSON value replaced."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["mutated", "mutated_json"]


@st.composite
def mutated(draw: st.DrawFn, seeds: list[bytes], words: tuple[bytes, ...] = ()) -> bytes:
    """A seed after a few mutations of its bytes."""
    data = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((0, 1, 2, 8, 64)))
        piece = draw(st.one_of(st.binary(max_size=12), st.sampled_from((b"", *words))))
        kind = draw(st.sampled_from(("put", "cut", "end", "twice")))
        if kind == "put":
            data = data[:at] + piece + data[at + length :]
        elif kind == "cut":
            data = data[:at] + data[at + length :]
        elif kind == "end":
            data = data[:at]
        else:
            data = data[:at] + data[at : at + 64] + data[at:]
    return data


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=8),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
    st.sampled_from(("R1", "collector", "0" * 64, 1e308, -1, 2**63)),
)  # fmt: skip


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found += _places(inner, (*path, key))
    return found


@st.composite
def mutated_json(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A seed that is still JSON, with one or two of its values replaced, removed or moved."""
    data = json.loads(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(_places(data)))
        inner = data
        for key in path[:-1]:
            inner = inner[key]
        if draw(st.booleans()):
            inner[path[-1]] = draw(_VALUES)
        elif isinstance(inner, dict):
            inner[draw(st.text(max_size=4))] = inner.pop(path[-1])
        else:
            inner.append(inner[0])
    return json.dumps(data).encode()

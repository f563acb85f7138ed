"""What a fuzz target is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["JSON_WORDS", "Target", "promised"]


@dataclass(frozen=True)
class Target:
    """`run` raises only what is wrong with the parser; `seeds` are inputs it takes."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    words: tuple[bytes, ...] = ()


def promised(*kinds: type[Exception]) -> Callable[[Callable[[bytes], object]], Callable[[bytes], None]]:
    """The function, with the exceptions it promises caught."""

    def wrap(function: Callable[[bytes], object]) -> Callable[[bytes], None]:
        @functools.wraps(function)
        def run(data: bytes) -> None:
            try:
                function(data)
            except kinds:
                return

        return run

    return wrap


JSON_WORDS = (
    b"null",
    b"-1",
    b"1e999",
    b"NaN",
    b"[]",
    b"{}",
    b'""',
    b"[" * 2000,
    b"9" * 5000,
    b"\\ud800",
    b"true",
    b"0.5",
)

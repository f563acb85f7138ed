"""What a model can be fitted to: a dataset, moments, a private Gram matrix, or several releases of one study together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from trimask.errors import ParameterError
from trimask.moments import Moments, pool

__all__ = ["HasMoments", "Source", "moments_of"]


class HasMoments(Protocol):
    """A `trimask.Dataset`, or what `trimask.release.gram` returns."""

    @property
    def moments(self) -> Moments:
        """What every fit starts from."""


Source: TypeAlias = HasMoments | Moments | Sequence[HasMoments | Moments]


def moments_of(source: Source) -> Moments:
    """The moments behind a source; several releases are pooled."""
    if isinstance(source, (list, tuple)):
        if not source:
            raise ParameterError("dataset", "at least one release")
        return pool([_one(item) for item in source])
    return _one(source)


def _one(item: object) -> Moments:
    if isinstance(item, Moments):
        return item
    found = getattr(item, "moments", None)
    if not isinstance(found, Moments):
        raise ParameterError(
            "dataset",
            "a trimask.Dataset or what release.gram returns (raw rows go to ols_from_rows)",
            type(item).__name__,
        )
    return found

"""What a model can be fitted to: a dataset, moments, or several releases of one study taken together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from trimask.errors import ParameterError
from trimask.moments import Moments, pool

if TYPE_CHECKING:
    from trimask.dataset import Dataset

    One: TypeAlias = Dataset | Moments
    Source: TypeAlias = One | Sequence[One]

__all__ = ["moments_of"]


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
            "dataset", "a trimask.Dataset (raw rows go to ols_from_rows)", type(item).__name__
        )
    return found

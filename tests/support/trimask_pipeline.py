"""The rows suite without its network: the devices' code, the providers' arithmetic and the publisher's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.randomness import RandomSource
from trimask_core.rows.arrays import expand_component
from trimask_core.rows.gateway import Gateway
from trimask_core.study.definition import Study
from trimask_server.suites.rows.check import directions, judge, open_component, take_out
from trimask_server.suites.rows.masking_attempt import masked_answers
from trimask_server.suites.rows.math import apply_right_mask, fold, masked_release, with_publishing_noise
from trimask_server.suites.rows.provider_masking import apply_left_mask
from trimask_server.suites.rows.unmasking import unmask_component

__all__ = ["releases"]

Matrix = NDArray[np.float64]
_TOGETHER = 16  # releases whose rows a gateway masks at once


def releases(
    study: Study, people: Sequence[Mapping[str, object]], count: int, source: RandomSource
) -> Iterator[Matrix]:
    """`count` datasets as they would be published, each of one block of the same people."""
    gateway = Gateway(study)
    # One check for all: the rows are new each time, and what is opened is taken out of them.
    opened = directions(study, source.seed())
    left = count
    while left:
        now = min(left, _TOGETHER)
        drawn = [gateway._draw(person, source) for _ in range(now) for person in people]
        rows = gateway._masked(drawn)
        for number in range(now):
            these = slice(number * len(people), (number + 1) * len(people))
            yield _publish(study, _components(study, rows[these], drawn[these]), opened, source)
        left -= now


def _components(study: Study, rows: NDArray[np.int64], drawn: Sequence[object]) -> list[NDArray[np.int64]]:
    """X^1 .. X^K1 as right providers expand and receive them."""
    columns, steps = study.rows.columns, study.rows.share_steps
    expanded = [
        np.array([expand_component(one.seeds[k], columns, steps) for one in drawn])  # type: ignore[attr-defined]
        for k in range(len(study.right) - 1)
    ]
    return [*expanded, rows - sum(expanded)]


def _publish(
    study: Study, components: Sequence[NDArray[np.int64]], opened: Matrix, source: RandomSource
) -> Matrix:
    assert all(judge(study, [open_component(component, opened) for component in components]))
    sent = [
        apply_right_mask(take_out(study.rows.grid.to_float(component), opened), source)
        for component in components
    ]
    stacked = np.hstack([masked for masked, _ in sent])
    for _ in study.left:
        stacked = apply_left_mask(source.seed(), stacked)
    parts = np.hsplit(stacked, len(components))
    deliveries = [
        unmask_component(study, part, mask, source.seed()).view(np.uint64)
        for part, (_, mask) in zip(parts, sent, strict=True)
    ]
    block = masked_answers(study, deliveries)
    scale = study.rows.publishing_steps * study.rows.grid.step
    factor = with_publishing_noise(fold(None, block), len(block), scale, source.seed())
    return masked_release(factor, len(block), source.seed())

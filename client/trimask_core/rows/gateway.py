"""Submissions for many people at a time, with numpy: for a gateway, which holds their answers anyway.

Simulated devices are such a gateway. A person's own device has `trimask_core.submit.submission.build_submission`, and the
same randomness gives the same payloads and ids here, to the bit: the answers and their noise come from the device's own
code, and the rest applies the same operations to every row in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.randomness import RandomSource
from trimask_core.rows.arrays import SecureNormals, expand_components, tag_components
from trimask_core.rows.payloads import (
    check_headroom,
    component_payloads,
    component_seeds,
    draw_keys,
    noisy_answers,
)
from trimask_core.study.definition import Study
from trimask_core.submit.submission import WITHDRAWAL_KEY_BYTES, SealedSubmission, seal_under

_BATCH = 32  # rows made at a time: what is worked out of them stays in cache


@dataclass(frozen=True)
class _Drawn:
    """All that is random in a person's submission but the sealing, in the order in which a device draws it."""

    x1: list[int] = field(repr=False)
    normals: SecureNormals = field(repr=False)
    seeds: tuple[bytes, ...] = field(repr=False)
    keys: list[tuple[bytes, tuple[bytes, ...]]] = field(repr=False)
    withdrawal_key: bytes = field(repr=False)


class Gateway:
    """Makes the submissions of many people to one study of the rows suite."""

    def __init__(self, study: Study) -> None:
        self.study = study
        frame = study.rows.row_frame
        self._signs = np.array(frame.signs)
        self._reflections = [(start, half, np.array(v)) for start, half, v in frame.reflections]

    def __repr__(self) -> str:
        return f"Gateway({self.study.id.hex()})"

    def submissions(
        self,
        people: Sequence[Mapping[str, object]],
        source: RandomSource,
        sealing: Mapping[int, bytes] | None = None,
    ) -> list[SealedSubmission]:
        """A submission for each person's answers; `sealing` as in `build_submission`."""
        made: list[SealedSubmission] = []
        for start in range(0, len(people), _BATCH):
            drawn = [self._draw(answers, source) for answers in people[start : start + _BATCH]]
            rows = self._masked(drawn)
            for each, one in zip(self._payloads(rows, drawn), drawn, strict=True):
                made.append(seal_under(self.study, each, one.withdrawal_key, sealing))
        return made

    def _draw(self, answers: Mapping[str, object], source: RandomSource) -> _Drawn:
        study = self.study
        return _Drawn(
            noisy_answers(study, answers, source),
            SecureNormals(source),
            component_seeds(len(study.right), study.rows.share_steps, source),
            draw_keys(study.rows.tag_holders, source),
            source.read(WITHDRAWAL_KEY_BYTES),
        )

    def _masked(self, drawn: Sequence[_Drawn]) -> NDArray[np.int64]:
        """x B_0 on the grid, a row a person: `trimask_core.rows.payloads.mask_row`."""
        study = self.study
        g = study.rows.tau * np.array([one.normals.standard_normal(study.rows.columns) for one in drawn])
        work = g.copy()
        for reflection in self._reflections:
            _reflect(work, *reflection)
        answers = study.rows.grid.to_float(np.array([one.x1 for one in drawn], dtype=np.int64))
        taken = 1.0 - study.rows.frame_share
        shift = answers - taken * (work[:, : study.attributes] * self._signs)
        out = np.zeros_like(g)
        out[:, : study.attributes] = shift * self._signs
        for reflection in reversed(self._reflections):
            _reflect(out, *reflection)
        return study.rows.grid.round(g + out)

    def _payloads(self, rows: NDArray[np.int64], drawn: Sequence[_Drawn]) -> list[list[bytes]]:
        """Everybody's payloads, of components and tags made for all of them at once."""
        steps, columns = self.study.rows.share_steps, rows.shape[1]
        parts = [
            expand_components([one.seeds[k] for one in drawn], columns, steps)
            for k in range(len(drawn[0].seeds))
        ]
        remainders = rows - sum(parts)
        check_headroom(remainders)
        tagged = [
            tag_components(part, [one.keys[k][0] for one in drawn], [one.keys[k][1] for one in drawn])
            for k, part in enumerate([*parts, remainders][: len(drawn[0].keys)])
        ]
        return [
            component_payloads(
                self.study,
                one.seeds,
                remainder.astype("<i8").tobytes(),
                [each[i] for each in tagged],
                one.keys,
            )
            for i, (one, remainder) in enumerate(zip(drawn, remainders, strict=True))
        ]


def _reflect(rows: NDArray[np.float64], start: int, half_square: float, v: NDArray[np.float64]) -> None:
    part = rows[:, start:]
    # Running sums, which are added up from left to right; np.sum and @ add in an order of their own.
    shares = np.add.accumulate(part * v, axis=1)[:, -1] / half_square
    part -= shares[:, None] * v

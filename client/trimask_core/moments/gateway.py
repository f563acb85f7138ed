"""Submissions of many people to a study of the moments suite, with numpy: for a gateway, which has their answers anyway.

The same randomness gives the bytes that a person's own device makes (`trimask_core.moments.report`): answers are encoded
by the same code, and the proofs and shares of all of them are arrays modulo P.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trimask_core.basics.errors import ParameterError
from trimask_core.basics.randomness import RandomSource
from trimask_core.moments.arrays import Elements, expand_seeds, limbs, product, times
from trimask_core.moments.field import P, basis_at, draw
from trimask_core.moments.report import share_payloads
from trimask_core.study.definition import Study
from trimask_core.submit.submission import WITHDRAWAL_KEY_BYTES, SealedSubmission, seal_under

_BATCH = 256  # reports at a time: a few megabytes


class Gateway:
    """Makes the submissions of many people to one study of the moments suite."""

    def __init__(self, study: Study) -> None:
        if len(study.right) < 2:
            raise ParameterError(
                "providers", "at least 2: one alone would hold the answers", len(study.right)
            )
        self.study = study
        self._layout = study.moments.layout
        m = self._layout.bits
        # The values at m+1..2m of the polynomial with given values at 0..m, as a matrix.
        further = [basis_at(m, x) for x in range(m + 1, 2 * m + 1)]
        self._extension = limbs(np.array(further, dtype=np.uint64).T)

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
            made += self._batch(people[start : start + _BATCH], source, sealing)
        return made

    def _batch(
        self,
        people: Sequence[Mapping[str, object]],
        source: RandomSource,
        sealing: Mapping[int, bytes] | None,
    ) -> list[SealedSubmission]:
        encoded, hidden, seeds, keys = [], [], [], []
        for answers in people:  # in the order in which a device draws
            encoded.append(self._layout.encode(answers))
            hidden.append((draw(source), draw(source)))
            seeds.append(tuple(source.seed() for _ in self.study.right[1:]))
            keys.append(source.read(WITHDRAWAL_KEY_BYTES))
        reports = self._reports(
            np.array([one.bits for one in encoded], dtype=np.uint64),
            np.array([[value % P for value in one.proved] for one in encoded], dtype=np.uint64),
            np.array(hidden, dtype=np.uint64),
        )
        vectors = _without(reports, seeds).astype("<u8")
        return [
            seal_under(self.study, share_payloads(own, vector.tobytes()), key, sealing)
            for own, vector, key in zip(seeds, vectors, keys, strict=True)
        ]

    def _reports(self, bits: Elements, z: Elements, hidden: Elements) -> Elements:
        """Bits, products and proof, a row each: `trimask_core.moments.report.build_report`."""
        rho, f_zero = hidden[:, :1], hidden[:, 1:]
        one, other = np.triu_indices(z.shape[1])
        further = product(np.hstack([f_zero, bits]), self._extension)
        f = np.hstack([f_zero, further])
        h = _minus(times(f, f), f)
        return np.hstack(
            [bits, times(z[:, one], z[:, other]), rho, times(rho, z), times(rho, rho), f_zero, h]
        )


def _minus(one: Elements, other: Elements) -> Elements:
    prime = np.uint64(P)
    return (one + (prime - other)) % prime


def _without(reports: Elements, seeds: Sequence[Sequence[bytes]]) -> Elements:
    """What is left of each report when the shares of its seeds are taken away."""
    count = reports.shape[1]
    for k in range(len(seeds[0])):
        reports = _minus(reports, expand_seeds([own[k] for own in seeds], count))
    return reports

"""One block of the protocol, simulated in a few lines, with a record of what every party held."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from trimask_attacks import LeftView, RightMask, RightView, UnmaskingView, Views
from trimask_core.rows.collusion import Topology

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Block:
    """The record of a block and the truth it hides; `tau` is the noise columns' scale."""

    views: Views
    answers: Matrix
    tau: float


def _haar(rng: np.random.Generator, rows: int, columns: int) -> Matrix:
    """A uniformly distributed frame: `rows` orthonormal rows."""
    q, r = np.linalg.qr(rng.standard_normal((columns, rows)))
    return (q * np.sign(np.diag(r))).T


def _answers(rng: np.random.Generator, people: int, attributes: int) -> Matrix:
    """A ones column, then continuous answers and yes/no answers by turns, scaled to [-1, 1]."""
    answers = np.ones((people, attributes))
    answers[:, 1::2] = rng.uniform(-1, 1, answers[:, 1::2].shape)
    answers[:, 2::2] = rng.choice([-1.0, 1.0], answers[:, 2::2].shape)
    return answers


def _right_mask(rng: np.random.Generator, component: Matrix, rotated: bool) -> RightMask:
    people, columns = component.shape
    basis = np.linalg.qr(component.T)[0].T
    if rotated:
        basis = _haar(rng, people, people) @ basis
    return RightMask(frame=_haar(rng, people, columns), basis=basis)


def simulate_block(
    topology: Topology,
    seed: int,
    *,
    people: int = 64,
    attributes: int = 6,
    noise_columns: int | None = None,
    tau_over_norm: float = 1.7,
    rotated_basis: bool = True,
) -> Block:
    """Run a block. tau = 1.7 R is what 4 n noise columns ask for at n = 256; components have mu = 2^-20."""
    rng = np.random.default_rng(seed)
    columns = attributes + (4 * people if noise_columns is None else noise_columns)
    norm = math.sqrt(attributes)
    tau, scale = tau_over_norm * norm, 2**20 * 2 * norm
    step = 2.0 ** math.ceil(math.log2(12 * scale * math.sqrt(topology.right - 1) * 2**-52))

    answers = _answers(rng, people, attributes)
    frame = _haar(rng, attributes, columns)
    noise = tau * rng.standard_normal((people, columns))
    rows = np.rint((answers @ frame + noise - (noise @ frame.T) @ frame) / step).astype(np.int64)
    normals = (rng.standard_normal(rows.shape) for _ in range(topology.right - 1))
    drawn = [np.rint(scale / step * z).astype(np.int64) for z in normals]
    components = [part.astype(np.float64) * step for part in (*drawn, rows - sum(drawn))]

    masks = [_right_mask(rng, component, rotated_basis) for component in components]
    travelling = tuple(mask.apply(x) for mask, x in zip(masks, components, strict=True))
    left: dict[int, LeftView] = {}
    for j in range(1, topology.left + 1):
        mask = _haar(rng, people, people)
        out = tuple(mask @ matrix for matrix in travelling)
        left[j] = LeftView(incoming=travelling, outgoing=out, mask=mask)
        travelling = out
    # The unmasking nodes deliver on the grid, so that blinding can be exact.
    unmasked = [np.rint(mask.remove(m) / step) * step for mask, m in zip(masks, travelling, strict=True)]
    parts = zip(masks, travelling, unmasked, strict=True)
    views = Views(
        topology=topology,
        right={k: RightView(x, m) for k, (x, m) in enumerate(zip(components, masks, strict=True), 1)},
        left=left,
        unmasking={k: UnmaskingView(*part) for k, part in enumerate(parts, 1)},
        collector=np.sum(unmasked, axis=0),
        device_frame=frame,
    )
    return Block(views, answers, tau)


@pytest.fixture(scope="session")
def simulate() -> Callable[..., Block]:
    """`simulate_block`, for tests to run blocks of their own."""
    return simulate_block

"""What every party of a block held: the input of `trimask_theory.attacks`, or of an auditor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimask_core.errors import ParameterError
from trimask_core.rows._collusion_closure import Step
from trimask_core.rows.collusion import Topology

__all__ = ["LeftView", "Matrix", "RightMask", "RightView", "UnmaskingView", "Views"]

Matrix = NDArray[np.float64]


class RightMask(NamedTuple):
    """B_k where it acts: Q, a basis of the component's row space, goes to the frame F (both n x p)."""

    frame: Matrix
    basis: Matrix

    def apply(self, M: Matrix) -> Matrix:
        """M B_k."""
        return (M @ self.basis.T) @ self.frame

    def remove(self, M: Matrix) -> Matrix:
        """M B_k^T, for M = (something) B_k."""
        return (M @ self.frame.T) @ self.basis


@dataclass(frozen=True)
class RightView:
    """What R_k held: its component X^k (n x p) and its mask B_k."""

    component: Matrix = field(repr=False)
    mask: RightMask = field(repr=False)


@dataclass(frozen=True)
class LeftView:
    """What L_j held: A_(j-1)..A_1 X^k B_k of every k as they came and as they left, and A_j (n x n)."""

    incoming: tuple[Matrix, ...] = field(repr=False)
    outgoing: tuple[Matrix, ...] = field(repr=False)
    mask: Matrix = field(repr=False)


@dataclass(frozen=True)
class UnmaskingView:
    """What U_k held: B_k, A X^k B_k as it came back, and A X^k."""

    mask: RightMask = field(repr=False)
    returned: Matrix = field(repr=False)
    unmasked: Matrix = field(repr=False)


@dataclass(frozen=True)
class Views:
    """What every party held in one block, by number from 1; `collector` is A X B_0 (n x p).

    `device_frame` is F_0, the first p1 rows of B_0: known to the collector and to every device.
    """

    topology: Topology
    right: Mapping[int, RightView] = field(repr=False)
    left: Mapping[int, LeftView] = field(repr=False)
    unmasking: Mapping[int, UnmaskingView] = field(repr=False)
    collector: Matrix = field(repr=False)
    device_frame: Matrix = field(repr=False)

    def held(self, step: Step) -> Matrix | RightMask:
        """The matrix behind a step "somebody has ..."; refused if that party does not hold it."""
        fact, topology = step.gives, self.topology
        number = step.party + 1
        if fact.kind == "sum" and number == len(topology.parties):
            return self.collector
        if topology.right < number <= topology.right + topology.left and fact.kind in ("left", "masked"):
            view = self.left[number - topology.right]
            if fact.kind == "left":
                return view.mask
            came = fact.at == number - topology.right - 1
            return (view.incoming if came else view.outgoing)[fact.of - 1]
        if number == fact.of and fact.at == 0:
            own = self.right[number]
            mine = {"component": own.component, "mask": own.mask, "masked": own.mask.apply(own.component)}
            return mine[fact.kind]  # type: ignore[return-value]
        if topology.parties[step.party] == topology.unmasking[fact.of - 1]:
            node = self.unmasking[fact.of]
            theirs = {"component": node.unmasked, "mask": node.mask, "masked": node.returned}
            return theirs[fact.kind]  # type: ignore[return-value]
        raise ParameterError("step", "something the party holds", step)

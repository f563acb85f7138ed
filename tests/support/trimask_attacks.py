"""The rules of the collusion report as numbers: what a coalition computes from what its members held.

Statement: `recover` carries out the chain of rules by which `trimask_core.rows.collusion` says a coalition
reaches the rows, on the matrices the members saw in one block. Chains of solves give the answers to
floating-point accuracy, a fact of linear algebra. The two alignments (orthogonal Procrustes) give estimates,
and what is said of them is numerical. On sums that together are everything, each answer comes out under
noise of variance about tau^2 n / (2 p), from the n (n - 1) / 2 unknowns of the left mask that only the noise
columns pin down (`alignment_correlation`). On correlated components the left mask comes out with errors that
grow with the number of missing components, but is then applied to A X itself. `attempts` runs the same
algorithms for a coalition that no chain serves, as far as they will go. That they fail is evidence and not
proof.

Auditors can run this on a recorded block; `Views`, what every party of a block held, is all it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import ParameterError
from trimask_core.rows.collusion import Coalition, Topology
from trimask_core.rows.collusion_closure import Fact, Step, Trace, close

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


# The attacks, one by one


def solve_left_mask(before: Matrix, after: Matrix) -> Matrix:
    """A from M and A M, for M of full row rank n <= p: A = (A M) M^+. What section 3.5 of TM2 leaves open."""
    rows, columns = before.shape
    if rows > columns:
        raise ParameterError("before", "a matrix with at most as many rows as columns", before.shape)
    return np.asarray(np.linalg.lstsq(before.T, after.T, rcond=None)[0].T, dtype=np.float64)


def align_left_mask(known: Matrix, masked: Matrix) -> Matrix:
    """The orthogonal A for which A `known` is nearest to `masked` (Schoenemann 1966)."""
    u, _, vt = np.linalg.svd(masked @ known.T)
    nearest: Matrix = u @ vt
    return nearest


def align_right_mask(masked: Matrix, known: Matrix) -> RightMask:
    """The partial isometry B that brings `known` B nearest to `masked`; its `remove` estimates what B hid."""
    q_masked, r_masked = np.linalg.qr(masked.T)
    q_known, r_known = np.linalg.qr(known.T)
    u, _, vt = np.linalg.svd(r_masked @ r_known.T)
    return RightMask(frame=(q_masked @ u).T, basis=vt @ q_known.T)


def left_mask_from_triangular_basis(mask: RightMask, returned: Matrix) -> Matrix:
    """A, up to the sign of each column, if Q came straight from a thin LQ: why Q is rotated at random.

    `returned` F^T is then A L with L lower triangular, and such a factorisation is unique.
    """
    reversed_factor = (returned @ mask.frame.T)[:, ::-1]
    q, r = np.linalg.qr(reversed_factor)
    return (q * np.sign(np.diag(r)))[:, ::-1]


def binary_columns(masked: Matrix, tolerance: float = 1e-6) -> list[NDArray[np.int64]]:
    """Every non-zero 0/1 column that X may have, from M = X B alone (Appendix A of the TM2 paper).

    X and M have the same column space. With rank r < n, r rows of a column determine the others, so 2^r
    candidates are tried (r <= 20). With rank n every 0/1 column fits: the attack says nothing and returns
    nothing.
    """
    rows = masked.shape[0]
    u, singular, _ = np.linalg.svd(masked, full_matrices=False)
    rank = int((singular > singular[0] * rows * 1e-12).sum())
    if rank == rows:
        return []
    if rank > 20:
        raise ParameterError("masked", "of rank at most 20, for 2^rank columns are tried", rank)
    space = u[:, :rank]
    chosen = _independent_rows(space)
    rest = np.setdiff1d(np.arange(rows), chosen)
    relations = np.linalg.solve(space[chosen].T, space[rest].T).T
    found = []
    for number in range(1, 1 << rank):
        part = np.array([number >> i & 1 for i in range(rank)], dtype=np.float64)
        others = relations @ part
        nearest = np.rint(others)
        if np.all((nearest == 0) | (nearest == 1)) and np.abs(others - nearest).max() <= tolerance:
            column = np.empty(rows, dtype=np.int64)
            column[chosen], column[rest] = part.astype(np.int64), nearest.astype(np.int64)
            found.append(column)
    return found


def _independent_rows(space: Matrix) -> NDArray[np.intp]:
    """Rows chosen greedily, the one farthest from the span of those before (pivoted Gram-Schmidt)."""
    left = space.copy()
    chosen: list[int] = []
    for _ in range(space.shape[1]):
        best = int(np.argmax(np.einsum("ij,ij->i", left, left)))
        direction = left[best] / np.linalg.norm(left[best])
        left = left - np.outer(left @ direction, direction)
        chosen.append(best)
    return np.array(chosen, dtype=np.intp)


# Chains of attacks


class _Workbench:
    """Facts in numbers, worked out step by step."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.values: dict[Fact, Matrix] = {}
        self.masks: dict[int, RightMask] = {}

    def carry_out(self, steps: Iterable[Step]) -> None:
        for step in steps:
            value = self.views.held(step) if step.rule == "held" else self._apply(step)
            if isinstance(value, RightMask):
                self.masks[step.gives.of] = value
            else:
                self.values[step.gives] = value

    def left(self, low: int, high: int) -> Matrix:
        """W_high W_low^-1; masks are orthogonal, so the way back is the transpose."""
        return self.values[Fact("left", high, low)] if low < high else self.values[Fact("left", low, high)].T

    def _apply(self, step: Step) -> Matrix:
        gives, needs = step.gives, step.needs
        if step.rule == "unmask":
            mask = self.masks[gives.of]
            change = mask.remove if gives.kind == "component" else mask.apply
            return change(self.values[needs[0]])
        if step.rule == "solve":
            return solve_left_mask(self.values[needs[0]], self.values[needs[1]])
        if step.rule == "align":
            return self._align(gives, needs)
        if step.rule == "compose":
            via = ({needs[0].at, needs[0].of} & {needs[1].at, needs[1].of}).pop()
            return self.left(via, gives.at) @ self.left(gives.of, via)
        if step.rule == "move":
            return self.left(needs[0].at, gives.at) @ self.values[needs[0]]
        if step.rule == "correlate":
            return self._complementary(needs[0].at, needs[1:]).T @ self.values[needs[0]]
        values = [self.values[need] for need in needs]
        if step.rule == "remainder":
            return values[0] - _total(values[1:])
        return values[0] @ self.views.device_frame.T if step.rule == "rows" else _total(values)

    def _align(self, gives: Fact, needs: Sequence[Fact]) -> Matrix:
        """W (K's sum) + (V's sum) = (total at V's stage), and the total is small or known."""
        totals = [need for need in needs if need.kind == "sum"]
        if not totals:
            return self._complementary(gives.at, needs)
        known, masked = self._sums(gives.at, needs)
        if totals[0].at == gives.at:
            return solve_left_mask(known, self.values[totals[0]] - masked)
        return solve_left_mask(known - self.values[totals[0]], -masked)

    def _complementary(self, stage: int, components: Sequence[Fact]) -> Matrix:
        """The left mask that best turns the sum of the other components into minus the sum of those at `stage`."""
        known, masked = self._sums(stage, components)
        return align_left_mask(known, -masked)

    def _sums(self, stage: int, facts: Sequence[Fact]) -> tuple[Matrix, Matrix]:
        components = [fact for fact in facts if fact.kind == "component"]
        here = [self.values[fact] for fact in components if fact.at == stage]
        return _total([self.values[fact] for fact in components if fact.at != stage]), _total(here)


def _total(matrices: Sequence[Matrix]) -> Matrix:
    total: Matrix = np.sum(matrices, axis=0)
    return total


def recover(views: Views, coalition: Coalition) -> Matrix:
    """The answers (n x p1) by the coalition's chain: exact, or estimates if the chain aligns."""
    bench = _Workbench(views)
    bench.carry_out(coalition.steps)
    return bench.values[Fact("rows")]


def attempts(views: Views, parties: Sequence[str]) -> dict[str, Matrix]:
    """Estimates of the answers (n x p1) by every attack, what is missing left out or taken for what is there.

    For a coalition that no chain leads to the rows. Everything the rules do give it is worked out first.
    """
    topology = views.topology
    last = topology.left
    trace: Trace = {}
    members = sum(1 << topology.parties.index(name) for name in parties)
    close(topology.right, last, topology.unmasking_index, members, trace=trace)
    bench = _Workbench(views)
    bench.carry_out(trace.values())
    values = bench.values
    ranks = range(1, topology.right + 1)
    start = {k: values[Fact("component", 0, k)] for k in ranks if Fact("component", 0, k) in values}
    end = {k: values[Fact("component", last, k)] for k in ranks if Fact("component", last, k) in values}
    found: dict[str, Matrix] = {}
    masks = {"left mask taken for none": np.eye(views.collector.shape[0])}
    for fact in values:
        if fact.kind == "left":
            masks[f"only A{fact.of + 1}..A{fact.at} undone"] = values[fact]
    for a, b in ((a, b) for a in start for b in end if a != b):
        masks[f"A aligned on X^{a} and A X^{b}"] = align_left_mask(start[a], -end[b])
    if start and end:
        masks["A aligned on partial sums"] = align_left_mask(
            _total([*start.values()]), -_total([*end.values()])
        )
    for name, mask in masks.items():
        if Fact("sum", last) in values:
            found[f"{name}: A X"] = mask.T @ values[Fact("sum", last)]
        moved = {**{k: mask.T @ end[k] for k in end}, **start}
        if moved:
            found[f"{name}: sum of components"] = _total([*moved.values()])
    for fact in [fact for fact in values if fact.kind == "masked" and fact.of not in start]:
        found[f"right mask of X^{fact.of} taken for none at stage {fact.at}"] = values[fact]
        if start and fact.at == 0:
            known = _total([*start.values()])
            aligned = align_right_mask(values[fact], -known).remove(values[fact])
            found[f"X^{fact.of} aligned from the right"] = known + aligned
    return {name: estimate @ views.device_frame.T for name, estimate in found.items()}


# How good an estimate is


def _standardised(estimate: Matrix, answers: Matrix) -> tuple[Matrix, Matrix]:
    """Both with columns of mean 0 and variance 1, without those in which the answers do not vary."""
    varies = np.ptp(answers, axis=0) > 0

    def scaled(columns: Matrix) -> Matrix:
        centred = columns[:, varies] - columns[:, varies].mean(axis=0)
        spread = centred.std(axis=0)
        return np.asarray(centred / np.where(spread > 0, spread, np.inf), dtype=np.float64)

    return scaled(estimate), scaled(answers)


def correlation(estimate: Matrix, answers: Matrix) -> float:
    """Correlation over all answers, each column standardised; a column that does not vary counts for nothing."""
    e, x = _standardised(estimate, answers)
    return float((e * x).sum() / x.size)


def beyond_chance(estimate: Matrix, answers: Matrix) -> float:
    """`correlation` in standard deviations of what shuffling the people would give (exact variance)."""
    e, x = _standardised(estimate, answers)
    variance = float(((e.T @ e) * (x.T @ x)).sum()) / (e.shape[0] - 1)
    return float((e * x).sum()) / variance**0.5 if variance else 0.0


def alignment_correlation(rows: int, columns: int, tau: float, spread: float) -> float:
    """About what alignment on complementary sums reaches for answers of standard deviation `spread`."""
    return float(1 / np.sqrt(1 + rows / (2 * columns) * (tau / spread) ** 2))

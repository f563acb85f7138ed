"""Recomputes what a study of the rows suite claims, for whoever is asked to approve it.

Basis: that of `masked_noise`, `honest_rows` and `accounting`; nothing the study states is taken for granted.
"""

from __future__ import annotations

import math

from trimask_core.errors import StudyError
from trimask_core.guarantee import Guarantee, Neighbours
from trimask_core.rows.discrete import RELEASE_ENTRIES, discrete_epsilon, right_providers_mu
from trimask_core.study import Study
from trimask_theory import honest_rows, masked_noise
from trimask_theory.accounting import MaskedRelease
from trimask_theory.accounting.studies import gaussian_cover, rounding

__all__ = ["right_providers", "verify"]


def verify(study: Study) -> None:
    """Recompute what sigma gives towards the public and the collector; `StudyError` if either claim is more than that."""
    protection = study.protection
    for guarantee, rows, towards in (
        (protection.public, study.release_rows, "the public"),
        (protection.collector, study.rows.block_rows, "the collector"),
    ):
        if guarantee is None or guarantee.epsilon is None or guarantee.delta is None:
            raise StudyError(f"the study states no (epsilon, delta) towards {towards}: do not approve it")
        near = guarantee.neighbours
        distance = {"record": 2 * protection.row_norm, "unit": 1.0}.get(near.relation)
        if near.relation == "add-remove" or (near.row_norm, near.distance) != (protection.row_norm, distance):
            raise StudyError(f"the guarantee towards {towards} is not about rows of this study's norm")
        got = masked_noise.delta(
            guarantee.epsilon,
            protection.sigma,
            rows,
            study.attributes,
            near.relation,
            protection.row_norm,
            _method(protection.method),
            rounding=rounding(study),
        )
        # Two machines' quadratures differ in their last digits, far less than this.
        if not got <= guarantee.delta * (1 + 1e-4):
            raise StudyError(
                f"towards {towards} the study claims delta = {guarantee.delta:g} at epsilon = "
                f"{guarantee.epsilon:g}, but its noise gives {got:.3g}: do not approve it"
            )
        released = RELEASE_ENTRIES * rows
        _verify_discrete(
            study, guarantee, released * study.attributes, released * study.rows.columns, towards
        )
        _verify_enclosed(study, guarantee, rows, got, towards)
        if rows == study.release_rows:
            _verify_honest_rows(study, "unit" if near.relation == "unit" else "record", guarantee.delta)
    _verify_adds_up(study)
    _verify_right_providers(study)


def right_providers(study: Study, near: Neighbours, sigma: float) -> Guarantee:
    """Towards all right providers together: they know B_0, so they see each row with its own noise."""
    step = study.rows.grid.step
    distance = near.distance or 0.0
    if near.relation == "unit":
        distance += step * math.sqrt(study.attributes)
    return Guarantee(
        neighbours=near,
        basis="proved",
        because="they see a row with its own noise alone",
        citation="docs/theory/collection.md#claim; Dong, Roth, Su 2022, Theorem 2.7",
        mu=right_providers_mu(distance, sigma, step),
        discrete_epsilon=discrete_epsilon(math.ldexp(sigma, -study.rows.grid_exponent), study.attributes),
    )


def _verify_right_providers(study: Study) -> None:
    stated, public = study.protection.right_providers, study.protection.public
    if stated is None or public is None:
        raise StudyError(
            "the study does not say what all right providers together could tell: do not approve it"
        )
    wanted = right_providers(study, public.neighbours, study.protection.sigma)
    found = wanted.mu or math.inf
    if stated.neighbours != public.neighbours or not found <= (stated.mu or 0.0) * (1 + 1e-9):
        raise StudyError(
            f"towards all right providers the study states mu = {stated.mu}, but its noise gives {found:.4g}: do not "
            "approve it"
        )
    _verify_discrete(study, stated, study.attributes, 0, "all right providers")


def _verify_discrete(study: Study, guarantee: Guarantee, entries: int, masked: int, towards: str) -> None:
    added = discrete_epsilon(math.ldexp(study.protection.sigma, -study.rows.grid_exponent), entries, masked)
    if guarantee.discrete_epsilon is None or not added <= guarantee.discrete_epsilon * (1 + 1e-6):
        raise StudyError(
            f"towards {towards} the study does not state that noise on its grid adds {added:.2g} to epsilon: do not approve "
            "it"
        )


def _verify_adds_up(study: Study) -> None:
    """The pair (mu, slack) by which a device adds this study to others must cover its curve."""
    protection = study.protection
    if protection.public is not None and protection.public.adds_up is not None:
        mu, slack = protection.public.adds_up
        release = MaskedRelease(
            protection.sigma,
            study.release_rows,
            study.attributes,
            row_norm=protection.row_norm,
            rounding=rounding(study),
        )
        # Rounded up to a thousandth, so that two machines cannot differ by it.
        if protection.public.neighbours.relation != "record" or gaussian_cover(release, slack) > mu * (
            1 + 1e-3
        ):
            raise StudyError(
                f"the study adds up with others as mu = {mu:g}, which is too little: do not approve it"
            )


def _method(word: str) -> masked_noise.Method:
    for method in masked_noise.METHODS:
        if method == word:
            return method
    raise StudyError(
        f"the study's noise was found by {word!r}, which is no method of this version: do not approve it"
    )


def _verify_enclosed(study: Study, guarantee: Guarantee, rows: int, got: float, towards: str) -> None:
    """A certified interval must hold what quadrature finds; with python-flint it is found again."""
    if guarantee.enclosed is None or guarantee.epsilon is None:
        return
    lower, upper = guarantee.enclosed
    fits = lower <= got * (1 + 1e-6) and got <= upper * (1 + 1e-6)
    if fits and masked_noise.can_certify():
        protection = study.protection
        least, most = masked_noise.delta(
            guarantee.epsilon,
            protection.sigma,
            rows,
            study.attributes,
            "unit" if guarantee.neighbours.relation == "unit" else "record",
            protection.row_norm,
            certified=True,
            rounding=rounding(study),
        )
        fits = lower <= most and least <= upper
    if not fits:
        raise StudyError(
            f"towards {towards} the study certifies delta in [{lower:.5g}, {upper:.5g}], but its noise gives {got:.5g}: do "
            "not approve it"
        )


def _verify_honest_rows(study: Study, protect: masked_noise.Protection, delta: float) -> None:
    protection = study.protection
    wanted = honest_rows.table(
        study.release_rows,
        study.rows.block_rows,
        delta,
        protection.sigma,
        study.attributes,
        protect,
        protection.row_norm,
        _method(protection.method),
        rounding(study),
    )
    stated = dict(protection.by_honest_rows)
    for rows, epsilon in wanted:
        if not stated.get(rows, 0.0) >= epsilon * (1 - 1e-4):
            raise StudyError(
                f"with {rows} honest rows the study claims epsilon = {stated.get(rows, 0.0):.4g}, but its noise gives "
                f"{epsilon:.4g}: do not approve it"
            )

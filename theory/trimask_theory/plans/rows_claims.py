"""What a study of the rows suite claims, computed again by whoever is asked to approve it.

Basis: that of `masked_noise`, `honest_rows` and `accounting`; nothing the study states is taken for granted.
"""

from __future__ import annotations

from trimask_core.errors import StudyError
from trimask_core.guarantee import Guarantee
from trimask_core.study import Study
from trimask_theory import honest_rows, masked_noise
from trimask_theory.accounting import MaskedRelease
from trimask_theory.accounting.studies import gaussian_cover

__all__ = ["verify"]


def verify(study: Study) -> None:
    """Recompute what sigma buys towards the public and the collector; `StudyError` if either claim is more than that."""
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
        )
        # Two machines' quadratures differ in their last digits, far less than this.
        if not got <= guarantee.delta * (1 + 1e-4):
            raise StudyError(
                f"towards {towards} the study claims delta = {guarantee.delta:g} at epsilon = "
                f"{guarantee.epsilon:g}, but its noise gives {got:.3g}: do not approve it"
            )
        _verify_enclosed(study, guarantee, rows, got, towards)
        if rows == study.release_rows:
            _verify_honest_rows(study, "unit" if near.relation == "unit" else "record", guarantee.delta)
    _verify_adds_up(study)


def _verify_adds_up(study: Study) -> None:
    """The pair (mu, slack) by which a device adds this study to others must cover its curve."""
    protection = study.protection
    if protection.public is not None and protection.public.adds_up is not None:
        mu, slack = protection.public.adds_up
        release = MaskedRelease(
            protection.sigma, study.release_rows, study.attributes, row_norm=protection.row_norm
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
            row_norm=protection.row_norm,
            certified=True,
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
    )
    stated = dict(protection.by_honest_rows)
    for rows, epsilon in wanted:
        if not stated.get(rows, 0.0) >= epsilon * (1 - 1e-4):
            raise StudyError(
                f"with {rows} honest rows the study claims epsilon = {stated.get(rows, 0.0):.4g}, but its noise gives "
                f"{epsilon:.4g}: do not approve it"
            )

"""Studies of the rows suite: noise, noise columns, grid, who unmasks; and what whoever approves one recomputes.

Statement. sigma is the least noise (rounded up to a whole number of grid steps) at which a release of N rows
gives (epsilon, delta) by `masked_noise`; the same sigma at n rows, a block, bounds what the collector sees.
tau is the least scale of the noise columns for the largest block (2 n - 1 rows) by Davidson and Szarek; the
grid is the finest that leaves the components of scale 2 R / mu their headroom.
Assumptions and basis: those of `masked_noise`, `trimask_core.rows.noise_columns` and `trimask_core.rows.study`.

Of what is recomputed the basis is that of `masked_noise` and `accounting`; nothing the study states is
taken for granted.
"""

from __future__ import annotations

import math
from dataclasses import replace

from trimask_core.basics.errors import ImpossibleStudy, StudyError
from trimask_core.basics.randomness import RandomSource
from trimask_core.rows import collusion
from trimask_core.rows.noise_columns import (
    CHECK_DIRECTIONS,
    default_noise_columns,
    least_tau,
    noise_columns_mu,
)
from trimask_core.rows.study import (
    COARSEST_EXPONENT,
    PUBLISHING_STEPS,
    RELEASE_ENTRIES,
    Grid,
    RowsSettings,
    discrete_epsilon,
    grid_exponent,
    right_providers_mu,
)
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee, Neighbours, Protection
from trimask_theory.accounting.studies import gaussian_cover, release_of, rounding
from trimask_theory.masking import masked_noise
from trimask_theory.planning.definition import CollectionPlan, Draft, PrivacyTarget


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
        record = protection.public.neighbours.relation == "record"
        # Rounded up to a thousandth, so that two machines cannot differ by it.
        if not record or gaussian_cover(release_of(study), slack) > mu * (1 + 1e-3):
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
        least, most = _enclosed(guarantee, study.protection.sigma, rows, study)
        fits = lower <= most and least <= upper
    if not fits:
        raise StudyError(
            f"towards {towards} the study certifies delta in [{lower:.5g}, {upper:.5g}], but its noise gives {got:.5g}: do "
            "not approve it"
        )


def _verify_honest_rows(study: Study, protect: masked_noise.Protection, delta: float) -> None:
    protection = study.protection
    wanted = _by_honest_rows(study, delta, protection.sigma, protect, _method(protection.method))
    stated = dict(protection.by_honest_rows)
    for rows, epsilon in wanted:
        if not stated.get(rows, 0.0) >= epsilon * (1 - 1e-4):
            raise StudyError(
                f"with {rows} honest rows the study claims epsilon = {stated.get(rows, 0.0):.4g}, but its noise gives "
                f"{epsilon:.4g}: do not approve it"
            )


_SLACK = 1e-3
"""The part of delta that adds up beside mu; where it is less, mu must cover more of the tail."""


def create(draft: Draft, source: RandomSource) -> Study:
    """The study, with its noise calibrated."""
    definition, right, left = draft.definition, len(draft.right), len(draft.left)
    privacy, plan = definition.privacy, definition.collection
    block_rows = _check_sizes(plan, right, left)
    row_norm = definition.schema.row_norm if privacy.row_norm is None else privacy.row_norm
    if not (math.isfinite(row_norm) and row_norm > 0):
        raise ImpossibleStudy("row_norm", f"row_norm must be in (0, {definition.schema.row_norm:.4g}]")
    noise_columns = plan.noise_columns
    if noise_columns is None:
        noise_columns = default_noise_columns(block_rows, plan.obfuscation_failure)
    largest = 2 * block_rows - 1, len(definition.schema.columns), noise_columns, row_norm

    def tau(sigma: float) -> float:
        return least_tau(*largest, sigma, plan.obfuscation_failure, CHECK_DIRECTIONS)

    def noise_columns_give(sigma: float) -> float:
        return noise_columns_mu(*largest, sigma, tau(sigma), plan.obfuscation_failure, CHECK_DIRECTIONS)

    settings = RowsSettings(
        block_rows=block_rows,
        noise_columns=noise_columns,
        tau=tau(0.0),
        noise_columns_mu=noise_columns_give(0.0),
        publishing_steps=0,
        obfuscation_failure=plan.obfuscation_failure,
        share_leakage=plan.share_leakage,
        grid_exponent=_grid_exponent(row_norm, plan.share_leakage, right),
        unmasking=collusion.default_unmasking(right, left) if plan.unmasking is None else plan.unmasking,
        mask_seed=source.seed(),
    )
    # Without noise first: errors in sizes, grid or parties are reported before sigma is computed.
    exact = draft.study(settings, Protection(row_norm, 0.0, "exact"))
    if privacy.exact:
        return exact
    protection = _protect(privacy, exact)
    noisy = replace(
        settings,
        tau=tau(protection.sigma),
        noise_columns_mu=noise_columns_give(protection.sigma),
        publishing_steps=PUBLISHING_STEPS,
    )
    return replace(exact, protection=protection, suite=noisy)


def _check_sizes(plan: CollectionPlan, right: int, left: int) -> int:
    """n, after checking what the formulas need to be evaluated at all; the study repeats these checks and the rest."""
    if plan.block_rows is None or plan.block_rows < 2:
        raise ImpossibleStudy(
            "block_too_small", "block_rows must be at least 2, and more than a row has columns"
        )
    if plan.noise_columns is not None and plan.noise_columns < 1:
        raise ImpossibleStudy(
            "too_few_noise_columns", "noise_columns must be at least 1; leave it out for the default"
        )
    if not 0 < plan.share_leakage <= 2.0**-10:
        raise ImpossibleStudy("share_leakage", "share_leakage must be in (0, 2^-10]; 2^-20 is the default")
    if not 0 < plan.obfuscation_failure <= 1e-3:
        raise ImpossibleStudy(
            "obfuscation_failure", "obfuscation_failure must be in (0, 0.001]; 1e-9 is the default"
        )
    if right < 2 or left < 1:
        raise ImpossibleStudy(
            "too_few_providers", "a study needs two right providers and one left provider at least"
        )
    return plan.block_rows


def _grid_exponent(row_norm: float, share_leakage: float, right: int) -> int:
    scale = 2 * row_norm / share_leakage
    exponent = grid_exponent(scale, right) if math.isfinite(scale) else 1024
    if exponent > COARSEST_EXPONENT:
        raise ImpossibleStudy(
            "grid_too_coarse",
            f"share_leakage = {share_leakage:.3g} needs components so large that float64 leaves the answers "
            f"a grid of 2^{exponent}, coarser than 2^{COARSEST_EXPONENT}; give a larger share_leakage",
        )
    return exponent


def _protect(privacy: PrivacyTarget, draft: Study) -> Protection:
    """sigma for the release, and what it gives towards the collector, who sees blocks for a moment."""
    if privacy.epsilon is None or privacy.delta is None:
        raise StudyError("give epsilon and delta, or exact = true for a release without noise")
    row_norm = draft.protection.row_norm
    grid = Grid(draft.rows.grid_exponent)
    moved = rounding(draft)
    # What both are of, but for how many rows one mask mixes.
    given = draft.attributes, privacy.protect, row_norm, privacy.method
    calibration = masked_noise.calibrate(
        privacy.epsilon,
        privacy.delta,
        draft.release_rows,
        *given,
        certified=privacy.certified,
        rounding=moved,
    )
    sigma = math.ldexp(grid.steps_up(calibration.sigma), draft.rows.grid_exponent)
    epsilon = masked_noise.epsilon(
        privacy.delta, sigma, draft.rows.block_rows, *given, certified=privacy.certified, rounding=moved
    )
    if not math.isfinite(epsilon):
        raise ImpossibleStudy(
            "epsilon_too_large",
            f"epsilon = {privacy.epsilon:g} asks for so little noise that a block has no guarantee at all; "
            "give a smaller epsilon, or exact = true and no claim of differential privacy",
        )
    steps = grid.steps_up(sigma)
    public, collector = (
        replace(
            calibration.guarantee,
            epsilon=found,
            discrete_epsilon=discrete_epsilon(
                steps, RELEASE_ENTRIES * rows * draft.attributes, RELEASE_ENTRIES * rows * draft.rows.columns
            ),
        )
        for found, rows in ((privacy.epsilon, draft.release_rows), (epsilon, draft.rows.block_rows))
    )
    if privacy.protect == "record":
        slack = privacy.delta * _SLACK
        mu = gaussian_cover(release_of(draft, sigma), slack)
        public = replace(public, adds_up=(mu, slack) if math.isfinite(mu) else None)
    if privacy.certified:
        public, collector = (
            replace(guarantee, enclosed=_enclosed(guarantee, sigma, rows, draft))
            for guarantee, rows in ((public, draft.release_rows), (collector, draft.rows.block_rows))
        )
    return Protection(
        row_norm,
        sigma,
        privacy.method,
        public,
        collector,
        by_honest_rows=_by_honest_rows(draft, privacy.delta, sigma, privacy.protect, privacy.method),
        right_providers=right_providers(draft, public.neighbours, sigma),
    )


def _by_honest_rows(
    study: Study, delta: float, sigma: float, protect: masked_noise.Protection, method: masked_noise.Method
) -> tuple[tuple[int, float], ...]:
    return masked_noise.honest_table(
        study.release_rows, study.rows.block_rows, delta, sigma, study.attributes, protect, study.protection.row_norm,
        method, rounding(study),
    )  # fmt: skip


def _enclosed(guarantee: Guarantee, sigma: float, rows: int, study: Study) -> tuple[float, float]:
    return masked_noise.enclosed_delta(
        guarantee.epsilon or 0.0,
        sigma,
        rows,
        study.attributes,
        "unit" if guarantee.neighbours.relation == "unit" else "record",
        study.protection.row_norm,
        rounding=rounding(study),
    )

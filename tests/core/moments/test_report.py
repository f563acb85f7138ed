"""Honest reports always pass; altered ones and forgeries never do.

A report that is not valid passes under a random challenge with probability at most 2/(P-1) + 2m/(P-2m-1) + 1/P, which is
below 2e-16 at m <= 230. The challenges here are fixed, so a test that passes once always passes.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moments_cases import (
    SMALL,
    SMALL_ANSWERS,
    SMALL_NORM,
    a_challenge,
    check,
    forged,
    over_supports_alone,
    random_answers,
    random_layout,
    random_schema,
)
from trimask_core.basics.errors import AnswerError, ParameterError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.moments.field import P
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import FORMS, Challenge, build_report, forms, verdict
from trimask_core.study.schema import Attribute, Schema

BOX = MomentsLayout.of(SMALL)
BALL = MomentsLayout.of(SMALL, SMALL_NORM)
OUTSIDE = {"hours": 6, "smoker": True, "region": "west"}
CHALLENGES = range(4)


def refused(layout: MomentsLayout, elements: list[int]) -> set[str | None]:
    return {check(layout, elements, a_challenge(layout, label)) for label in CHALLENGES}


@given(st.integers(0, 10**6))
def test_honest_reports_pass(seed: int) -> None:
    random = Random(seed)
    schema = random_schema(random)
    layout = random_layout(random, schema, ball=random.random() < 0.5)
    if layout is None:
        return
    form = forms(layout, a_challenge(layout, seed))
    assert over_supports_alone(layout, seed)
    for _ in range(3):
        elements = build_report(layout, random_answers(random, schema), DeterministicRandom(str(seed)))
        assert len(elements) == layout.elements
        assert all(0 <= element < P for element in elements)
        assert verdict(form.apply(elements, first=True)) is None


def test_the_values_that_are_opened_by_their_definition(source: DeterministicRandom) -> None:
    """The five forms against sums written out from the note, f and h by their polynomials."""
    layout, challenge = BALL, a_challenge(BALL)
    elements = build_report(layout, SMALL_ANSWERS, source)
    z, rho = layout.encode(SMALL_ANSWERS).z, elements[layout.rho]
    s = (sum(u * value for u, value in zip(challenge.u, z, strict=True)) + challenge.u_rho * rho) % P
    got = dict(zip(FORMS, forms(layout, challenge).apply(elements, first=True), strict=True))
    m, r = layout.bits, challenge.r
    phi = 0
    for k, value in enumerate([elements[layout.f_zero], *elements[:m]]):
        term = value
        for i in range(m + 1):
            if i != k:
                term = term * (r - i) % P * pow(k - i, -1, P) % P
        phi += term
    assert got == {"s": s, "Q": s * s % P, "phi": phi % P, "eta": (phi * phi - phi) % P, "lambda": 0}


@pytest.mark.parametrize("layout", [BOX, BALL], ids=["box", "ball"])
@pytest.mark.parametrize("change", [1, -1, 2, P // 2, 0x123456789ABCDEF])
def test_every_altered_element_is_refused(
    layout: MomentsLayout, change: int, source: DeterministicRandom
) -> None:
    honest = build_report(layout, SMALL_ANSWERS, source)
    form = forms(layout, a_challenge(layout))
    for place in range(layout.elements):
        altered = list(honest)
        altered[place] = (altered[place] + change) % P
        reason = verdict(form.apply(altered, first=True))
        in_proof_of_bits = place >= layout.f_zero
        assert reason == "bad_bits" if in_proof_of_bits else reason is not None
        if layout.bits <= place <= layout.rho_squared:
            assert reason == "bad_products"


def alterations(count: int, seed: int) -> int:
    """How many of `count` reports, altered at random in one to five elements, pass."""
    random, passed = Random(seed), 0
    layouts = [BOX, BALL]
    while len(layouts) < 8:
        schema = random_schema(random)
        layout = random_layout(random, schema, ball=len(layouts) % 2 == 0)
        if layout is not None:
            layouts.append(layout)
    source = DeterministicRandom(f"alterations {seed}")
    honest = [build_report(layout, random_answers(random, layout.schema), source) for layout in layouts]
    under = [[forms(layout, a_challenge(layout, label)) for label in range(8)] for layout in layouts]
    for _ in range(count):
        chosen = random.randrange(len(layouts))
        altered = list(honest[chosen])
        for place in random.sample(range(len(altered)), random.randint(1, 5)):
            change = random.choice([1, P - 1, random.randrange(1, P), random.randrange(1, 1000)])
            altered[place] = (altered[place] + change) % P
        passed += verdict(random.choice(under[chosen]).apply(altered, first=True)) is None
    return passed


def test_random_alterations() -> None:
    """One passes in 3,000 with probability below 1e-12."""
    assert alterations(3_000, 1) == 0


@pytest.mark.slow
def test_hundred_thousand_random_alterations() -> None:
    """One passes in 10^5 with probability below 3e-11."""
    assert alterations(100_000, 2) == 0


def test_the_helper_forges_nothing_from_honest_bits() -> None:
    """What the forgeries below start from passes, so it is the forgery that is refused."""
    for layout in (BOX, BALL):
        assert refused(layout, forged(layout, layout.encode(SMALL_ANSWERS).bits)) == {None}


@pytest.mark.parametrize("root", [2, -1, 3, -2, 1 << 40, P // 3, (P + 1) // 2])
def test_other_roots_are_no_bits(root: int) -> None:
    """b and 1 - b have the same b^2 - b; a value that is neither 0 nor 1 is refused with the best proof there is."""
    for layout in (BOX, BALL):
        bits = list(layout.encode(SMALL_ANSWERS).bits)
        for place in range(len(bits)):
            for value in (root, 1 - root):
                assert refused(layout, forged(layout, [*bits[:place], value, *bits[place + 1 :]])) == {
                    "bad_bits"
                }


def test_roots_that_keep_the_answer() -> None:
    """Two bits of one answer altered so that z, products and linear checks are those of an honest row."""
    bits = list(BOX.encode(SMALL_ANSWERS).bits)
    assert bits[:3] == [1, 0, 1]
    bits[0], bits[1] = 3, -1  # 1 * 3 + 2 * (-1) = 1
    assert refused(BOX, forged(BOX, bits)) == {"bad_bits"}
    bits = list(BOX.encode(SMALL_ANSWERS).bits)
    bits[5:8] = [2, -1, 0]  # levels that add up to 1
    assert refused(BOX, forged(BOX, bits)) == {"bad_bits"}


def test_wrong_products_with_the_right_diagonal() -> None:
    encoded = BOX.encode(SMALL_ANSWERS)
    honest = forged(BOX, encoded.bits)
    for j in range(BOX.q):
        for k in range(j + 1, BOX.q):
            altered = list(honest)
            altered[BOX.product(j, k)] = (altered[BOX.product(j, k)] + 2) % P
            assert refused(BOX, altered) == {"bad_products"}
    # All products of another row with the same squares: one column with its sign turned.
    turned = [-encoded.z[0], *encoded.z[1:4], -encoded.z[4]]
    other = forged(BOX, encoded.bits, turned)
    mixed = list(honest)
    mixed[BOX.products.start : BOX.products.stop] = other[BOX.products.start : BOX.products.stop]
    assert refused(BOX, mixed) == {"bad_products"}
    assert refused(BOX, other) == {"bad_products"}  # with its rho z as well: z is what the bits say


def test_opposite_changes_of_two_products() -> None:
    honest = forged(BOX, BOX.encode(SMALL_ANSWERS).bits)
    honest[BOX.product(0, 1)] += 5
    honest[BOX.product(0, 2)] -= 5
    assert refused(BOX, [value % P for value in honest]) == {"bad_products"}


def test_a_derived_column_that_is_no_product() -> None:
    encoded = BOX.encode(SMALL_ANSWERS)
    z = [*encoded.z[:4], encoded.z[4] + 2]
    elements = forged(BOX, encoded.bits, z)
    assert refused(BOX, elements) == {"bad_products"}  # z_j is T_ab, which this proof has right, against z_j
    elements[BOX.product(0, 1)] = z[4] % P
    assert refused(BOX, elements) == {"bad_products"}  # and T_ab is no z_a z_b


@pytest.mark.parametrize("levels", [(0, 0, 0), (1, 1, 0), (0, 1, 1), (1, 1, 1)], ids=str)
def test_no_level_or_several(levels: tuple[int, ...]) -> None:
    bits = list(BOX.encode(SMALL_ANSWERS).bits)
    bits[5:8] = levels
    assert refused(BOX, forged(BOX, bits)) == {"bad_linear"}


def test_two_wrong_questions_do_not_cancel() -> None:
    choice = Attribute("c", "categorical", levels=("a", "b"))
    layout = MomentsLayout.of(Schema((choice, Attribute("d", "categorical", levels=("a", "b")))))
    assert refused(layout, forged(layout, (1, 0, 0, 1))) == {None}
    assert refused(layout, forged(layout, (1, 1, 0, 0))) == {"bad_linear"}


def test_a_row_outside_the_ball() -> None:
    assert BALL.ball is not None
    answers = BOX.encode(OUTSIDE)
    left = BALL.ball.left((*answers.z, 0))
    assert left < 0
    m, weights = BALL.bits, BALL.ball.weights
    held = len(weights)
    for flag in (0, 1):
        for slack in (0, BALL.ball.capacity, left % 2**held):
            lies = [slack >> i & 1 for i in range(held)]
            bits = [*answers.bits, flag, *lies]
            assert len(bits) == m
            assert refused(BALL, forged(BALL, bits)) == {"bad_linear"}
    # A slack that is negative, in one bit of weight 1: no bit.
    bits = [*answers.bits, 0, left, *[0] * (held - 1)]
    assert refused(BALL, forged(BALL, bits)) == {"bad_bits"}
    # Squares that lie so that the sum is right: no products.
    elements = forged(BALL, [*answers.bits, 0, *[0] * held])
    square, c = BALL.product(0, 0), BALL.ball.coefficients[0]
    elements[square] = (elements[square] + left * pow(c, -1, P)) % P
    assert refused(BALL, elements) == {"bad_products"}


def test_the_clipped_row_of_the_same_answers_passes(source: DeterministicRandom) -> None:
    assert BALL.encode(OUTSIDE).clipped
    assert refused(BALL, build_report(BALL, OUTSIDE, source)) == {None}


def test_slack_bits_that_lie() -> None:
    bits = list(BALL.encode(SMALL_ANSWERS).bits)
    for place in range(BALL.ball_bit, BALL.bits):
        altered = [*bits[:place], 1 - bits[place], *bits[place + 1 :]]
        assert refused(BALL, forged(BALL, altered)) == {"bad_linear"}


def test_a_clipped_bit_that_is_not_paid_for() -> None:
    bits = list(BALL.encode(SMALL_ANSWERS).bits)
    bits[BALL.ball_bit - 1] = 1
    assert refused(BALL, forged(BALL, bits)) == {"bad_linear"}


def test_fresh_randomness_in_every_report(source: DeterministicRandom) -> None:
    one, two = (build_report(BALL, SMALL_ANSWERS, source) for _ in range(2))
    same = [place for place in range(BALL.elements) if one[place] == two[place]]
    hidden = [j for j, z in zip(BALL.rho_products, BALL.encode(SMALL_ANSWERS).z, strict=True) if z == 0]
    assert same == [*range(BALL.bits), *BALL.products, *hidden]


def test_answers_are_refused_before_anything_is_made(source: DeterministicRandom) -> None:
    with pytest.raises(AnswerError, match=r"^hours: "):
        build_report(BALL, {**SMALL_ANSWERS, "hours": 7}, source)


def test_forms_refuse_what_would_open_answers() -> None:
    challenge = a_challenge(BALL)
    wrong = [
        Challenge(challenge.u, 0, challenge.r, challenge.g),
        Challenge(challenge.u, P, challenge.r, challenge.g),
        *(
            Challenge(challenge.u, challenge.u_rho, r, challenge.g)
            for r in (0, 1, 2 * BALL.bits, P, P + 1, -1)
        ),
        Challenge(challenge.u[1:], challenge.u_rho, challenge.r, challenge.g),
        Challenge(challenge.u, challenge.u_rho, challenge.r, challenge.g[1:]),
    ]
    for each in wrong:
        with pytest.raises(ParameterError, match=r"^challenge must be"):
            forms(BALL, each)


def test_forms_and_verdicts_refuse_wrong_lengths() -> None:
    form = forms(BALL, a_challenge(BALL))
    for length in (0, BALL.elements - 1, BALL.elements + 1):
        with pytest.raises(ParameterError, match=f"{BALL.elements} field elements"):
            form.apply([0] * length, first=False)
    for length in (0, 4, 6):
        with pytest.raises(ParameterError, match="5 values"):
            verdict([0] * length)


def test_verdicts_in_their_order() -> None:
    assert verdict((3, 9, 2, 2, 0)) is None
    assert verdict((3 + P, 9 - P, 2, 2 + P, P)) is None
    assert verdict((3, 8, 2, 3, 1)) == "bad_products"
    assert verdict((3, 9, 2, 3, 1)) == "bad_bits"
    assert verdict((3, 9, 2, 2, 1)) == "bad_linear"


def test_nothing_secret_is_shown() -> None:
    challenge = a_challenge(BALL)
    assert repr(challenge) == "Challenge()"
    assert repr(forms(BALL, challenge)) == f"Forms(prime={P})"

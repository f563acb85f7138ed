"""Secrecy and soundness counted out over fields so small that every case can be gone through.

The code is that of the large field with another prime. What K1 - 1 providers, the collector and other devices see of a
report beside uniform shares of their own is what is opened; so equal counts of opened values for two rows, over every
choice of the device's randomness, are zero knowledge itself and not a sample of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import Challenge, _elements, _forms, _verdict
from trimask_core.study.schema import Attribute, Schema

ONE_BIT = MomentsLayout.of(Schema((Attribute("a", "binary"),)))
ONE_CHOICE = MomentsLayout.of(Schema((Attribute("a", "categorical", levels=("no", "yes")),)))
ROWS = {
    "bit": (ONE_BIT, {"a": 0}, {"a": 1}),
    "choice": (ONE_CHOICE, {"a": "no"}, {"a": "yes"}),
}


def challenges(layout: MomentsLayout, p: int) -> Iterator[Challenge]:
    """Every one there is."""
    for u in product(range(p), repeat=layout.q):
        for u_rho, r in product(range(1, p), range(2 * layout.bits + 1, p)):
            for g in product(range(p), repeat=len(layout.linear_checks)):
                yield Challenge(u, u_rho, r, g)


def reports(layout: MomentsLayout, answers: dict[str, object], p: int) -> list[list[int]]:
    """Under every choice of rho and f(0)."""
    encoded = layout.encode(answers)
    return [_elements(encoded.bits, encoded.z, rho, f_zero, p) for rho, f_zero in product(range(p), repeat=2)]


@pytest.mark.parametrize(
    ("rows", "p"),
    [("bit", 7), ("bit", 11), pytest.param("bit", 13, marks=pytest.mark.slow), ("choice", 7)],
)
def test_opened_values_have_the_same_law_for_both_answers(rows: str, p: int) -> None:
    layout, no, yes = ROWS[rows]
    of_no, of_yes = reports(layout, no, p), reports(layout, yes, p)
    for challenge in challenges(layout, p):
        form = _forms(layout, challenge, p)
        opened = Counter(form.apply(elements, first=True) for elements in of_no)
        assert opened == Counter(form.apply(elements, first=True) for elements in of_yes)
        # And the law is that of uniform s and phi: every pair once, the rest follows.
        assert len(opened) == p * p
        assert all(_verdict(values, p) is None for values in opened)
        assert {(values[0], values[2]) for values in opened} == set(product(range(p), repeat=2))


def test_a_second_challenge_would_tell() -> None:
    """The count can fail: what two different challenges open together is never the same for the two answers."""
    p = 7
    of_no, of_yes = reports(ONE_BIT, {"a": 0}, p), reports(ONE_BIT, {"a": 1}, p)
    one = _forms(ONE_BIT, Challenge((1,), 1, 3, ()), p)
    two = _forms(ONE_BIT, Challenge((2,), 1, 3, ()), p)
    seen = [
        {(one.apply(elements, True), two.apply(elements, True)) for elements in each}
        for each in (of_no, of_yes)
    ]
    assert not seen[0] & seen[1]


@pytest.mark.parametrize(("u_rho", "r"), [(0, 3), (1, 0), (1, 1), (1, 2), (7, 3), (1, 7)])
def test_challenges_that_would_tell_are_refused(u_rho: int, r: int) -> None:
    with pytest.raises(ParameterError, match="u_rho other than 0"):
        _forms(ONE_BIT, Challenge((1,), u_rho, r, ()), 7)


def test_wrong_products_pass_for_few_challenges() -> None:
    """Every bit, T, rho, rho z and rho^2 over F_5: unless T~ = z~ z~^T at most 2/(p-1) of the challenges are fooled."""
    p = 5
    forms = [_forms(ONE_BIT, Challenge((u,), u_rho, 3, ()), p) for u, u_rho in product(range(p), range(1, p))]
    worst = 0
    for bit, square, rho, hidden, rho_squared in product(range(p), repeat=5):
        elements = [bit, square, rho, hidden, rho_squared, 0, 0, 0]
        z = 2 * bit - 1
        honest = not ((square - z * z) % p or (hidden - rho * z) % p or (rho_squared - rho * rho) % p)
        passed = sum(_verdict(form.apply(elements, True), p) != "bad_products" for form in forms)
        if honest:
            assert passed == len(forms)
        else:
            worst = max(worst, passed)
    assert worst <= len(forms) * 2 / (p - 1)


def test_a_bit_that_is_none_passes_for_few_points() -> None:
    """Every b but 0 and 1, every f(0), h(0), h(2) over F_11: at most 2m of the p - 2m - 1 points r are fooled."""
    p, m = 11, 1
    forms = [_forms(ONE_BIT, Challenge((1,), 1, r, ()), p) for r in range(2 * m + 1, p)]
    worst = 0
    for bit, f_zero, h_zero, h_two in product(range(2, p), range(p), range(p), range(p)):
        z = 2 * bit - 1
        elements = [bit, z * z % p, 0, 0, 0, f_zero, h_zero, h_two]
        passed = 0
        for form in forms:
            sums = form.apply(elements, True)
            passed += _verdict(sums, p) is None
        worst = max(worst, passed)
    assert worst == 2 * m, "the bound is attained, and no more"


def test_a_wrong_choice_passes_for_one_weight_in_p() -> None:
    p = 7
    for bits in ((0, 0), (1, 1)):
        elements = _elements(bits, bits[1:], 3, 4, p)
        verdicts = Counter(
            _verdict(_forms(ONE_CHOICE, Challenge((2,), 1, 5, (g,)), p).apply(elements, True), p)
            for g in range(p)
        )
        assert verdicts == {"bad_linear": p - 1, None: 1}

"""The logarithm that enters rows: near the true one everywhere, and known to the bit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_core.study.derived import natural_log


@given(st.floats(min_value=5e-324, max_value=1.7976931348623157e308))
def test_it_is_the_logarithm(value: float) -> None:
    true = math.log(value)
    assert abs(natural_log(value) - true) <= 4 * math.ulp(true)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1.0, "0x0.0p+0"), (2.0, "0x1.62e42fefa39efp-1"), (0.5, "-0x1.62e42fefa39efp-1"), (10.0, "0x1.26bb1bbb55516p+1"),
     (45.0, "0x1.e740b76a3c9a4p+1"), (5e-324, "-0x1.74385446d71c3p+9")],
)  # fmt: skip
def test_known_to_the_bit(value: float, wanted: str) -> None:
    assert natural_log(value).hex() == wanted

"""Guarantees say what they are about, and survive JSON."""

from __future__ import annotations

import json

import pytest

from trimask_core.basics.errors import ParameterError
from trimask_core.study.guarantee import Guarantee, Neighbours

RECORD = Neighbours("record", row_norm=2.0)


@pytest.mark.parametrize(
    "guarantee",
    [
        Guarantee(RECORD, "proved", "Theorem 3.4", "Ding", epsilon=1.0, delta=1e-6),
        Guarantee(Neighbours("unit", 1.5, 0.5), "numerical", "maximised", "Theorem 1", mu=0.25),
        Guarantee(
            Neighbours("add-remove"), "asymptotic", "n grows", "Theorem 5", epsilon=2.0, delta=0.0, mu=1.0
        ),
    ],
)
def test_json_round_trip(guarantee: Guarantee) -> None:
    assert Guarantee.from_dict(json.loads(json.dumps(guarantee.to_dict()))) == guarantee


def test_sentences() -> None:
    both = Guarantee(RECORD, "proved", "Theorem 3.4", "Ding", epsilon=1.0, delta=1e-6, mu=0.25)
    assert str(both) == (
        "(1, 1e-06)-differential privacy and 0.25-Gaussian differential privacy; neighbours: one person's whole "
        "record of norm at most 2 replaced by any other; proved: Theorem 3.4 [Ding]"
    )
    assert str(Neighbours("unit")) == "one row moved by at most 1"
    assert str(Neighbours("unit", 1.5, 0.5)) == "one row of norm at most 1.5 moved by at most 0.5"
    assert str(Neighbours("add-remove", 3.0)) == "one row of norm at most 3 added or removed"


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="relation"):
        Neighbours("cousin")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="basis"):
        Guarantee(RECORD, "hoped", "x", "y", mu=1.0)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="together"):
        Guarantee(RECORD, "proved", "x", "y", epsilon=1.0, mu=1.0)
    with pytest.raises(ParameterError, match="or by mu"):
        Guarantee(RECORD, "proved", "x", "y")
    with pytest.raises(TypeError):
        Guarantee.from_dict({"neighbours": {"relation": "record", "colour": 1}})

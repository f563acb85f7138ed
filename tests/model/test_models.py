"""Properties of the protocol in every order of events of small models, and that each rule is needed for one of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trimask_model import closing, moments, rows
from trimask_model.explorer import Found, Model, explore


def test_every_property_holds_whatever_happens_when() -> None:
    models = {
        "moments": moments.model(1),
        "rows": rows.model(3),
        "closing": closing.model(2),
    }
    found = {name: explore(model) for name, model in models.items()}
    assert {name: str(one) for name, one in found.items() if one.broken} == {}
    # What was looked at: a model that can do nothing breaks nothing.
    assert found["moments"].states > 10_000
    assert found["rows"].states > 40_000
    assert found["closing"].states > 5_000


@pytest.mark.slow
def test_every_property_holds_for_more_people() -> None:
    for model in (moments.model(2), rows.model(4), closing.model(3)):
        found = explore(model)
        assert found.broken is None, found
        assert found.states > 100_000


# Their shortest way has two people in one release, asked for twice: two hundred thousand states and more.
_TWO_PEOPLE = ("a release has what no other release has", "a repeat is the same bytes or nothing")


def test_without_a_rule_its_property_breaks() -> None:
    one_person = [rule for rule in moments.RULES if rule not in _TWO_PEOPLE]
    found = {
        **{(rule,): explore(moments.model(1, rule)) for rule in one_person},
        **{rules: explore(rows.model(2, rules)) for rules in rows.RULES},
        **{(rule,): explore(closing.model(2, rule)) for rule in closing.RULES},
    }
    wanted = {
        **{(rule,): moments.RULES[rule] for rule in one_person},
        **rows.RULES,
        **{(rule,): broken for rule, broken in closing.RULES.items()},
    }
    assert {rules: one.broken for rules, one in found.items()} == wanted
    assert all(one.events for one in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("rule", _TWO_PEOPLE)
def test_without_a_rule_its_property_breaks_with_two_people(rule: str) -> None:
    assert explore(moments.model(2, rule, there=True)).broken == moments.RULES[rule]


def test_the_explorer_finds_what_is_wrong_and_what_is_stuck() -> None:
    def count(number: int) -> Iterator[tuple[str, int]]:
        if number < 5:
            yield "one more", number + 1
            yield "by others", 9

    def model(bad: int, end: int) -> Model[int]:
        return Model(
            0, count, lambda number: "bad" if number == bad else None, lambda number: number == end,
            lambda event: event != "by others",
        )  # fmt: skip

    assert explore(model(bad=7, end=5)) == Found(7, 10, "a study is stuck", ("by others",))
    assert explore(model(bad=3, end=5)).events == ("one more",) * 3
    assert explore(model(bad=9, end=5)).broken == "bad"
    assert explore(model(bad=7, end=9)).broken == "a study is stuck"  # the others can end it, but need not

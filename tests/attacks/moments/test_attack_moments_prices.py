"""A collector that wants a table for less than it costs, or another answer than the researcher asked for."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import trimask
from trimask import release
from trimask.errors import VerificationError
from trimask.release import gathered
from trimask_core.basics.encoding import canonical_json
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.totals import asked_hash
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Budget
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments, submit_all
from trimask_rogue import refused_with
from trimask_server.suites.moments import answers
from trimask_theory.moments.moments_question import MomentsQuestion

Rogue = Callable[..., Any]
TABLE = ("smoker", "region")
PEOPLE = moments_people(12)
CELLS = [
    sum(person["smoker"] == yes and person["region"] == region for person in PEOPLE)
    for yes, region in itertools.product((0, 1), ("north", "south", "west"))
]


def _understated(sensitivity: float) -> bytes:
    """A question about the table at a small price, with what it can be moved by said beside it."""
    body = json.loads(MomentsQuestion("table", TABLE, mu=0.01).canonical())
    return canonical_json(body | {"sensitivity": sensitivity})


def test_a_provider_finds_for_itself_what_a_question_costs(rogue: Rogue) -> None:
    """Nothing in a question says what it can be moved by, and one that does is not read: a provider finds the
    sensitivity in the signed study (docs/theory/verified-moments.md#prices)."""
    collector, _ = rogue(budget=Budget(mu=1.0))
    batch = collector.add("batch", collector.pending("R1"))
    with refused_with("malformed"):
        collector.release(collector.totals(1, [batch], _understated(1e-5)))
    honest = MomentsQuestion("table", TABLE, mu=0.01)
    found = collector.opened(collector.release(collector.totals(1, [batch], honest.canonical())))
    noises = honest.noises(collector.study.moments.layout, 1)
    assert all(noise.deviation >= math.sqrt(2) / 0.01 for noise in noises)
    # Two providers, deviation 200 each: all six within 10 of the truth with probability below 1e-8.
    assert (
        max(abs(math.ldexp(a, -noise.shift) - b) for a, noise, b in zip(found, noises, CELLS, strict=True))
        > 10
    )


@dataclass(frozen=True)
class _Believing(MomentsQuestion):
    """A question that is moved by what somebody said."""

    said: float = 0.0

    def sensitivity(self, layout: MomentsLayout) -> float:  # noqa: ARG002  the signature of what it stands for
        return self.said


def test_where_a_provider_believes_what_it_is_told_the_collector_reads_the_table(
    rogue: Rogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    collector, _ = rogue(budget=Budget(mu=1.0))
    batch = collector.add("batch", collector.pending("R1"))

    def read(data: bytes, study: Study) -> MomentsQuestion:
        body = json.loads(data)
        return _Believing(body["kind"], tuple(body["columns"]), **body["price"], said=body["sensitivity"])

    monkeypatch.setattr(MomentsQuestion, "read", read)
    asked = _understated(1e-5)
    found = collector.opened(collector.release(collector.totals(1, [batch], asked)))
    noises = read(asked, collector.study).noises(collector.study.moments.layout, 1)
    assert [round(math.ldexp(a, -noise.shift)) for a, noise in zip(found, noises, strict=True)] == CELLS


class _Another(MomentsQuestion):
    """What a collector asks providers for, whatever it was asked: other totals, as many as the table has cells."""

    @classmethod
    def about(cls, kind: Any, names: Any, layout: Any, price: Any) -> MomentsQuestion:  # noqa: ARG003
        return MomentsQuestion("group_means", ("region", "age"), **price)


def _answering(lab: Lab) -> Study:
    signed = open_moments(lab, budget=Budget(mu=100.0), release_rows=12)
    submit_all(signed, PEOPLE)
    lab.close(signed.study)
    return signed.study


def _connect(lab: Lab, study: Study) -> trimask.Connection:
    return trimask.connect(
        study.collector.peer_address,
        roots=lab.owner / "ca.pem",
        tls_name=study.collector.tls_name,
        certificate=(lab.owner / "tls.pem", lab.owner / "tls.key"),
        cache=lab.folder / "cache",
    )


def test_a_collector_that_asks_for_something_else_is_found_out(
    make_lab: Callable[[int], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Providers sign the question they answered; the researcher puts it together from the request and finds that they
    have signed no such one (docs/theory/verified-moments.md#ledgers)."""
    lab = make_lab(2)
    study = _answering(lab)
    with _connect(lab, study) as connection:
        monkeypatch.setattr(answers, "MomentsQuestion", _Another)
        with pytest.raises(VerificationError):
            release.table(connection, study.id, TABLE, mu=50.0)
        monkeypatch.undo()
        # The honest collector's answer, at another price: another question, with an answer of its own.
        found = release.table(connection, study.id, TABLE, mu=40.0)
    assert [round(value) for value in found.estimates.estimate] == CELLS


def test_without_the_providers_signatures_ages_are_read_as_a_table(
    make_lab: Callable[[int], Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make_lab(2)
    study = _answering(lab)

    def believed(study_id: bytes, number: int, batch_ids: bytes, question: bytes) -> bytes:
        price = json.loads(question)["price"]
        return asked_hash(study_id, number, batch_ids, _Another.about("", (), None, price).canonical())

    monkeypatch.setattr(answers, "MomentsQuestion", _Another)
    monkeypatch.setattr(gathered, "asked_hash", believed)
    with _connect(lab, study) as connection:
        found = release.table(connection, study.id, TABLE, mu=50.0)
    assert [round(value) for value in found.estimates.estimate] != CELLS

"""What K1 - 1 right providers and the collector hold of a real run fits every answer equally well; all K1 have the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import pytest

from trimask_client import Client
from trimask_core.moments.field import P, basis_at, pack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import Forms, _elements, bucket_of, derive_challenge, forms, verdict
from trimask_core.study.definition import Study
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments
from trimask_server.suites.moments.batch_check import Rounds
from trimask_server.suites.moments.key_exchange import KeyExchange

PEOPLE = 8


@dataclass
class Record:
    """What right providers had of every report: their shares, and what each told the others."""

    study: Study
    answers: dict[bytes, dict[str, Any]]
    shares: dict[int, dict[bytes, list[int]]] = field(default_factory=dict)
    said: dict[int, dict[bytes, tuple[int, ...]]] = field(default_factory=dict)
    keys: set[bytes] = field(default_factory=set)

    @property
    def layout(self) -> MomentsLayout:
        return self.study.moments.layout

    def forms(self, name: bytes) -> Forms:
        """What a report was checked with; every right provider knows it."""
        (key,) = self.keys
        return forms(self.layout, derive_challenge(key, self.study.id, bucket_of(name), self.layout))

    def added(self, providers: Sequence[int], name: bytes) -> list[int]:
        """Some providers' shares of a report, added up."""
        return [sum(parts) % P for parts in zip(*(self.shares[k][name] for k in providers), strict=True)]


@pytest.fixture(params=[2, 3])
def record(
    request: pytest.FixtureRequest, make_lab: Callable[[int], Lab], monkeypatch: pytest.MonkeyPatch
) -> Record:
    """An exact study of eight people, run and published."""
    lab = make_lab(request.param)
    signed = open_moments(lab, release_rows=PEOPLE)
    kept = Record(signed.study, {})
    read, key = Rounds._read, KeyExchange.challenge_key

    def reading(self: Rounds, study: Study, provider: int, secret: bytes, rows: Any) -> Any:
        opened = read(self, study, provider, secret, rows)
        kept.shares[provider] = dict(zip(opened.ids, opened.shares.tolist(), strict=True))
        kept.said[provider] = dict(zip(opened.ids, opened.values, strict=True))
        return opened

    async def deriving(self: KeyExchange, study: Study) -> bytes:
        made = await key(self, study)
        kept.keys.add(made)
        return made

    monkeypatch.setattr(Rounds, "_read", reading)
    monkeypatch.setattr(KeyExchange, "challenge_key", deriving)
    with Client(signed) as client:
        for person in moments_people(PEOPLE):
            kept.answers[client.submit(person).submission_id] = person
    lab.close(signed.study)
    _require_erased(lab, kept)
    return kept


def _require_erased(lab: Lab, kept: Record) -> None:
    """What a coalition finds on disk after the run has nothing of the others' shares, nor of its own any more."""
    needles = {pack(share[:1]) for shares in kept.shares.values() for share in shares.values()}
    for name in lab.parties:
        for path in (lab.folder / name).rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert not any(needle in data for needle in needles), path
    for role in kept.study.parties:
        if role != "collector":
            assert lab.query(role, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == [(0,)]


def test_all_right_providers_together_have_every_answer(record: Record) -> None:
    """All right providers together have every answer (docs/theory/verified-moments.md#collusion)."""
    for name, answers in record.answers.items():
        whole = record.added(range(1, len(record.study.right) + 1), name)
        first, _ = record.layout.totals_of(whole, 1)
        assert first == [value % P for value in record.layout.encode(answers).z]


def _solve(record: Record, name: bytes, other: dict[str, Any]) -> list[int]:
    """The one honest report of other answers whose opened s and phi are those that were seen.

    s = u . z + u_rho rho and phi = sum_k L_k(r) b_k + L_0(r) f_0 have one solution each, since u_rho and L_0(r) are not 0.
    """
    layout, check = record.layout, record.forms(name)
    s, _, phi, _, _ = (
        sum(parts) % P for parts in zip(*(said[name] for said in record.said.values()), strict=True)
    )
    encoded = layout.encode(other)
    bare = _elements(encoded.bits, encoded.z, 0, 0)
    s_bare, _, phi_bare, _, _ = check.apply(bare, first=True)
    u_rho, at_zero = check.coefficients[0][layout.rho], check.coefficients[2][layout.f_zero]
    (key,) = record.keys
    challenge = derive_challenge(key, record.study.id, bucket_of(name), layout)
    assert (u_rho, at_zero) == (challenge.u_rho, basis_at(layout.bits, challenge.r)[0])
    rho = (s - s_bare) * pow(u_rho, -1, P) % P
    f_zero = (phi - phi_bare) * pow(at_zero, -1, P) % P
    return _elements(encoded.bits, encoded.z, rho, f_zero)


def test_fewer_cannot_tell_two_people_apart(record: Record) -> None:
    """What all but one of them have of a real run fits two people's answers equally well
    (docs/theory/verified-moments.md#collusion).

    Exactly, not by counting. Let one provider be missing and take two people with different answers. Had they changed
    places, there is one choice of their rho and f(0) and of the missing shares under which everybody else has the same
    shares, is told the same about every report, comes to the same verdict, and sees the same share of the totals, so
    the same release even without noise. rho, f(0) and shares are uniform, hence both worlds are equally likely given
    everything K1 - 1 providers and the collector hold. (Shares made from seeds are uniform to whoever has not the seed as
    far as AES is a pseudorandom function; the last share is uniform because of them.)
    """
    layout, end = record.layout, record.layout.products.stop
    providers = range(1, len(record.study.right) + 1)
    for missing in providers:
        others = [k for k in providers if k != missing]
        for one, two in combinations(record.answers, 2):
            swapped = {one: record.answers[two], two: record.answers[one]}
            if layout.encode(swapped[one]).z == layout.encode(swapped[two]).z:
                continue
            totals = [0] * end
            for name, answers in swapped.items():
                report = _solve(record, name, answers)
                known = record.added(others, name)
                share = [(whole - part) % P for whole, part in zip(report, known, strict=True)]
                told = record.forms(name).apply(share, first=missing == 1)
                assert told == tuple(record.said[missing][name])
                opened = [
                    sum(parts) % P
                    for parts in zip(told, *(record.said[k][name] for k in others), strict=True)
                ]
                assert verdict(opened) is None
                assert share != record.shares[missing][name]
                totals = [(total + value) % P for total, value in zip(totals, share, strict=False)]
            before = [record.shares[missing][name][:end] for name in swapped]
            assert totals == [sum(parts) % P for parts in zip(*before, strict=True)]


def test_two_challenges_would_tell_them_apart(record: Record) -> None:
    """The control: a second challenge would leave one possible row (docs/theory/verified-moments.md#one-challenge).
    With the missing share's forms under a second challenge the same search fails for every wrong row and finds the
    right one, so the test above is not blind.
    """
    layout = record.layout
    (key,) = record.keys
    for name, answers in list(record.answers.items())[:3]:
        second = forms(layout, derive_challenge(key, record.study.id, bucket_of(name) ^ 1, layout))
        whole = record.added(range(1, len(record.study.right) + 1), name)
        seen = second.apply(whole, first=True)
        fitting = [
            other
            for other in record.answers.values()
            if second.apply(_solve(record, name, other), first=True) == seen
        ]
        assert fitting == [answers]

"""Right providers that lie to the others, to one of them, or to the collector; and what they gain."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from trimask_client import Client
from trimask_core.moments.field import P, pack, unpack
from trimask_core.study.definition import Study
from trimask_lab import Lab
from trimask_moments import exact_totals, moments_people, open_moments
from trimask_proto.v1 import moments_pb2
from trimask_rogue import RogueCollector, batch_name, refused_with
from trimask_server.access.permissions import admitted
from trimask_server.suites.moments import batch_check
from trimask_server.suites.moments.batch_check import Rounds, pack_values
from trimask_server.suites.moments.batch_store import BatchStore, verdict_message
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.suite import MomentsPeerServicer

MakeLab = Callable[[int], Lab]
Answers = Mapping[str, object]


def send(lab: Lab, people: Sequence[Answers], **settings: Any) -> tuple[Study, dict[bytes, Answers]]:
    """A study with reports of these people, and whose is which."""
    signed = open_moments(lab, **settings)
    with Client(signed) as client:
        sent = {client.submit(person).submission_id: person for person in people}
    return signed.study, sent


def published(lab: Lab, study: Study) -> list[dict[str, Any]]:
    """The releases."""
    folder = lab.folder / "collector" / "data" / "datasets"
    return [
        json.loads(path.read_text()) for path in sorted(folder.glob(f"{study.id.hex()[:12]}-*/moments.json"))
    ]


def batches(lab: Lab) -> list[tuple[bytes, str, set[bytes]]]:
    """(id, state, reports) of the collector's batches, in the order they were planned."""
    rows = lab.query("collector", "SELECT block_id, state, submission_ids FROM blocks ORDER BY sequence")
    return [
        (bytes(batch), state, {bytes(ids[at : at + 16]) for at in range(0, len(ids), 16)})
        for batch, state, ids in rows
    ]


def require_exact_without_the_first(lab: Lab, study: Study, sent: Mapping[bytes, Answers]) -> bytes:
    """The study closes, the first batch is lost and named, and the releases are exact for everybody else."""
    status = lab.close(study)
    (lost, state, ids), *others = batches(lab)
    assert state == "abandoned"
    assert others
    assert all(state != "abandoned" for _, state, _ in others)
    assert lost.hex()[:12] in status.note
    assert "signed different verdicts" in status.note
    first, products = exact_totals(study, [person for name, person in sent.items() if name not in ids])
    found = published(lab, study)
    assert sum(release["accepted"] for release in found) == len(sent) - len(ids)
    assert [sum(column) for column in zip(*(release["first"] for release in found), strict=True)] == first
    assert [
        sum(column) for column in zip(*(release["products"] for release in found), strict=True)
    ] == products
    for role in ("R1", "R2"):
        assert lab.query(role, "SELECT count(*) FROM submissions WHERE payload IS NOT NULL") == [(0,)]
    return lost


def test_different_forms_to_different_providers_cost_that_batch_alone(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch about which right providers disagree is erased and reported, and no other suffers
    (docs/theory/verified-moments.md#agreement). R3 gives R2 another share of one form than R1, in the first batch.
    """
    honest, lied = Rounds.sealed_forms, []

    async def lie(self: Rounds, study: Study, attempt: Any, caller: str, ids: bytes) -> bytes:
        batch = bytes(attempt.block_id)
        if self._node.role_in(study) != "R3" or caller != "R2" or lied not in ([], [batch]):
            return await honest(self, study, attempt, caller, ids)
        lied[:] = [batch]
        opened = await self._open(study, batch)
        (s, *others), *rest = opened.values
        public = await self._key_exchange.peer_key(study, caller)
        info = batch_check._info(study, batch, "R3", caller)
        return batch_check.seal(public, pack_values([((s + 1) % P, *others), *rest]), info)

    monkeypatch.setattr(Rounds, "sealed_forms", lie)
    lab = make_lab(3)
    study, sent = send(lab, moments_people(25), release_rows=10)
    lost = require_exact_without_the_first(lab, study, sent)
    assert lied == [lost]
    for role in ("R1", "R2"):  # neither has it in a total
        assert lab.query(role, "SELECT state FROM moments_batches WHERE batch_id = ?", (lost,)) != [
            ("added",)
        ]


def test_different_verdicts_to_different_providers_cost_that_batch_alone(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody adds a batch before it has every provider's signature under the same accepted set
    (docs/theory/verified-moments.md#agreement). R3 signs to R1 what R1 found, and to R2 something else: R1 adds the
    batch, R2 erases it, and it is in no release; nor can the collector have one with it.
    """
    honest, lied = MomentsPeerServicer.GetVerdict, []

    async def lie(self: MomentsPeerServicer, request: Any, context: Any) -> Any:
        answer = await honest(self, request, context)
        node, batch = self._node, bytes(request.attempt.block_id)
        study, caller, own = admitted()
        if (own, caller) == ("R3", "R2") and lied in ([], [batch]):
            lied[:] = [batch]
            message = verdict_message(study.id, batch, bytes(32))
            return moments_pb2.GetVerdictResponse(
                accepted_hash=bytes(32), signature=node.keys.identity.sign("batch-verdict", message)
            )
        return answer

    monkeypatch.setattr(MomentsPeerServicer, "GetVerdict", lie)
    lab = make_lab(3)
    study, sent = send(lab, moments_people(25), release_rows=10)
    lost = require_exact_without_the_first(lab, study, sent)
    assert lied == [lost]
    assert lab.query("R2", "SELECT state, total FROM moments_batches WHERE batch_id = ?", (lost,)) == [
        ("disagreed", None)
    ]
    details = [
        json.loads(text)
        for (text,) in lab.query("R2", "SELECT details FROM audit WHERE kind = 'batch_disagreed'")
    ]
    assert {(entry["batch"], entry["with"]) for entry in details} == {(lost.hex(), "R3")}
    lab.stop("collector")
    collector = RogueCollector(lab, study)
    with refused_with("batch_lost", "study_closed"):
        collector.commit("R2", collector.totals(9, [lost]))


def test_a_verdict_that_its_provider_did_not_sign_adds_nothing(
    rogue: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody adds a batch before it has every provider's signature (docs/theory/verified-moments.md#agreement). What comes
    in R2's name agrees with R1, and is signed by nobody, by R1, or for another batch.
    """
    honest, forged = MomentsPeerServicer.GetVerdict, list[Callable[[bytes], bytes]]()

    async def forge(self: MomentsPeerServicer, request: Any, context: Any) -> Any:
        answer = await honest(self, request, context)
        if forged and self._node.config.name == "R2":
            message = verdict_message(
                request.attempt.study_id, request.attempt.block_id, answer.accepted_hash
            )
            answer.signature = forged[0](message)
        return answer

    monkeypatch.setattr(MomentsPeerServicer, "GetVerdict", forge)
    collector, _ = rogue(people=6)
    ids = collector.pending("R1")
    batch, other = batch_name("batch"), verdict_message(collector.study.id, batch_name("other"), bytes(32))
    collector.assign(batch, ids)
    for sign in (
        lambda _: b"",
        lambda message: collector.lab.key("R1").sign("batch-verdict", message),
        lambda _: collector.lab.key("R2").sign("batch-verdict", other),
        lambda message: collector.lab.key("R2").sign("totals", message),
    ):
        forged[:] = [sign]
        with refused_with("bad_signature", "failed_verification"):
            collector.check(batch, ["R1"])
        assert collector.lab.query("R1", "SELECT state FROM moments_batches") == [("decided",)]
    forged.clear()
    assert [answer.accepted_count for answer in collector.check(batch)] == [6, 6]


def test_a_delivery_other_than_the_one_committed_to_is_not_published(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody commits to its total before anybody sends one: the last to send could otherwise choose the result
    (docs/theory/verified-moments.md#totals). R2 commits, waits, and sends other values twice; the collector takes
    none but those committed to.
    """
    honest, refusals = Deliveries.deliver, []

    async def lie(self: Deliveries, study: Study, totals: Any, commitments: Any) -> Any:
        answer = await honest(self, study, totals, commitments)
        if self._node.role_in(study) == "R2" and len(refusals) < 2:
            refusals.append(lab.query("collector", "SELECT count(*) FROM datasets"))
            first, *rest = unpack(answer.values)
            answer.values = pack([(first + 1000) % P, *rest])
        return answer

    monkeypatch.setattr(Deliveries, "deliver", lie)
    lab = make_lab(2)
    study, sent = send(lab, moments_people(12), release_rows=10)
    lab.close(study)
    assert refusals == [[(0,)], [(0,)]]
    (release,) = published(lab, study)
    assert (release["first"], release["products"]) == exact_totals(study, list(sent.values()))


@pytest.mark.parametrize("first", [0, 40])
def test_an_altered_total_shifts_the_release_by_a_constant_its_author_knows(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """Answers enter linearly, so whoever alters shares or totals adds a constant it knows, and nothing about anybody
    comes back (docs/theory/verified-moments.md#totals). R2 adds constants to its share of every bit and product.
    Whoever the people are, the release is theirs plus the same numbers, which R2 can work out without it. (That it
    can spoil the release is what the suite does not defend against: robustness needs honest providers.)
    """
    honest = BatchStore.totals
    lab = make_lab(2)

    async def altered(self: BatchStore, study_id: bytes, ids: Any) -> Any:
        found = await honest(self, study_id, ids)
        if self.database is not lab.nodes("R2")[0].context.database:
            return found
        return [
            (batch, [(value + 3 * at + 1) % P for at, value in enumerate(total)]) for batch, total in found
        ]

    monkeypatch.setattr(BatchStore, "totals", altered)
    people = moments_people(12, first)
    study, _ = send(lab, people, release_rows=12)
    lab.close(study)
    layout = study.moments.layout
    shift = [3 * at + 1 if at < layout.products.stop else 0 for at in range(layout.elements)]
    added = layout.totals_of(shift)
    (release,) = published(lab, study)
    exact = exact_totals(study, people)
    for part, true, constant in zip((release["first"], release["products"]), exact, added, strict=True):
        assert part == [value + more for value, more in zip(true, constant, strict=True)]


def test_an_altered_share_of_one_report_fails_it_and_shows_nothing(
    make_lab: MakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed provider can make reports fail, but no failure depends on an answer
    (docs/theory/verified-moments.md#zero-knowledge). R2 adds 1 to its share of the smoking bit, with people who
    smoke and people who do not: every report altered fails whatever the answer is, and the release is exact for the
    others.
    """
    honest = Rounds._read
    altered: set[bytes] = set()

    def lie(self: Rounds, study: Study, provider: int, key: bytes, rows: Any) -> Any:
        opened = honest(self, study, provider, key, rows)
        if provider != 2:
            return opened
        (column,) = (column for column in study.moments.layout.columns if column.name == "smoker")
        shares = opened.shares.copy()
        for place, name in enumerate(opened.ids):
            if name in altered:
                shares[place, column.first_bit] = (int(shares[place, column.first_bit]) + 1) % P
        checker = batch_check.BatchChecker(study.id, study.moments.layout, provider, key)
        return batch_check._Opened(opened.ids, shares, checker.form_values(opened.ids, shares))

    monkeypatch.setattr(Rounds, "_read", lie)
    lab = make_lab(2)
    signed = open_moments(lab, release_rows=20)
    people = moments_people(30)
    with Client(signed) as client:
        sent = [client.prepare(person) for person in people]
        altered.update(submission.submission_id for submission in sent[:10])
        for submission in sent:
            client.send(submission)
    study = signed.study
    assert {person["smoker"] for person in people[:10]} == {0, 1}
    lab.close(study)
    (release,) = published(lab, study)
    assert release["accepted"] == 20
    assert (release["first"], release["products"]) == exact_totals(study, people[10:])

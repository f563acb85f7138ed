"""A second challenge for a report, and what the right providers say to each other: to whom, and where it is not."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from trimask_client import Client
from trimask_core.basics.encoding import decode_bytes
from trimask_core.basics.errors import TrimaskError, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import seal
from trimask_core.moments.field import P, pack
from trimask_core.moments.report import FILE_NAME, MomentsSecret
from trimask_core.study.signed import approve
from trimask_core.submit.release_files import split_ids
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments, submit_all
from trimask_proto.v1 import moments_pb2, node_pb2
from trimask_proto.v1.moments_pb2_grpc import MomentsPeerServiceStub
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_rogue import RogueCollector, back_up, batch_name, refused_with, restore
from trimask_server.runtime import context as node_context
from trimask_server.suites.moments import key_exchange
from trimask_server.suites.moments.batch_check import Rounds, _info
from trimask_server.suites.moments.batch_store import exchange_key_message
from trimask_server.suites.moments.deliveries import Deliveries
from trimask_server.suites.moments.key_exchange import KeyExchange

Rogue = Callable[..., Any]
UNVERIFIED = ("bad_signature", "failed_verification", "tampered_component", "malformed")


# One challenge a report


def test_a_provider_with_another_secret_says_nothing_under_it(rogue: Rogue) -> None:
    """Two challenges to one report would show its row, so there is one for ever
    (docs/theory/verified-moments.md#one-challenge). R2 has answered under the study's key; then its moments.key is
    another, or lost. To R1, which has its first answer, it gives no second one.
    """
    collector, _ = rogue()
    ids, batch = collector.pending("R1"), batch_name("b")
    collector.assign(batch, ids)
    assert collector.ask_peer("GetForms", "R2", batch, ids, who="R1").sealed_values
    key = collector.lab.folder / "R2" / FILE_NAME
    kept = key.read_text()
    for replaced in (SystemRandom().seed().hex(), ""):
        collector.lab.stop("R2")
        key.write_text(replaced) if replaced else key.unlink()
        collector.lab.start("R2")
        for method in ("GetForms", "GetVerdict"):
            with refused_with("ledger_lost"):
                collector.ask_peer(method, "R2", batch, ids, who="R1")
        with refused_with("ledger_lost"):
            collector.check(batch, ["R2"])
    collector.lab.stop("R2")
    key.write_text(kept)
    collector.lab.start("R2")
    assert [answer.accepted_count for answer in collector.check(batch)] == [12, 12]


def test_a_replaced_contribution_is_refused(rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contributions to the challenge key are held to what was signed
    (docs/theory/verified-moments.md#one-challenge). R1 tells R2 of another contribution than it signed: R2 says
    nothing about any report, and nothing is added up.
    """
    collector, _ = rogue()
    honest = KeyExchange.answer

    def lie(self: KeyExchange, study: Any, caller: str, request: Any) -> Any:
        answer = honest(self, study, caller, request)
        if self._node.role_in(study) == "R1":
            other = seal(request.exchange_key, bytes(32), key_exchange._info(study, "R1", caller))
            answer.sealed_contribution = other
        return answer

    monkeypatch.setattr(KeyExchange, "answer", lie)
    ids, batch = collector.pending("R1"), batch_name("b")
    collector.assign(batch, ids)
    with refused_with(*UNVERIFIED):
        collector.ask_peer("GetForms", "R2", batch, ids, who="R1")
    with refused_with(*UNVERIFIED):
        collector.check(batch, ["R2"])
    assert collector.lab.query("R2", "SELECT count(*) FROM moments_batches") == [(0,)]
    monkeypatch.setattr(KeyExchange, "answer", honest)
    assert [answer.accepted_count for answer in collector.check(batch)] == [12, 12]


def test_no_parcel_opens_under_other_approvals(make_lab: Callable[[int], Lab], tmp_path: Path) -> None:
    """A parcel is bound to the approvals it was sealed under and opens under no others
    (docs/theory/verified-moments.md#one-challenge). R1, the owner and the collector make approvals of the same study
    with another commitment of R1's. A node that knows the study keeps the first ones; R2, restored to before the
    study, takes the second ones, and no report that was sent under the first opens there.
    """
    lab = make_lab(2)
    back_up(lab, "R2", tmp_path / "backup")
    signed = open_moments(lab)
    study = signed.study
    lab.stop("collector")
    with Client(signed) as client:
        sent = [client.prepare(person) for person in moments_people(3)]
        for submission in sent:
            client.send(submission)
        other = signed.with_approval(
            approve(study, lab.key("R1"), 2, MomentsSecret(bytes(32)).commitment(study.id))
        )
        assert other.verify().id == study.id
        assert other.study.binding != study.binding
        collector = RogueCollector(lab, study)
        request = node_pb2.RegisterStudyRequest(signed_study=other.to_json().encode())

        def commitments() -> tuple[bytes, ...]:
            return lab.nodes("R2")[0].context.studies.get(study.id).commitments

        collector.call(NodeServiceStub, "RegisterStudy", "R2", request)
        assert commitments() == study.commitments
        restore(lab, "R2", tmp_path / "backup")
        collector.call(NodeServiceStub, "RegisterStudy", "R2", request)
        assert commitments() == other.study.commitments
        for submission in sent:
            with pytest.raises(TrimaskError, match="does not open"):
                client.send(submission)
    assert collector.pending("R2") == []


# Who hears it


def test_forms_are_for_one_right_provider_alone(rogue: Rogue) -> None:
    """What right providers say about reports is sealed to each other and goes to nobody else
    (docs/theory/verified-moments.md#secret-exchange). The collector and the owner are refused; what R1 seals to R2
    opens with no other key of the study, and not as the forms of another batch or from another sender.
    """
    collector, _ = rogue(right=3)
    ids, batch, study = collector.pending("R1"), batch_name("b"), collector.study
    collector.assign(batch, ids)
    for who in ("collector", "owner", "R1"):
        for method in ("GetForms", "GetVerdict"):
            with refused_with("not_your_role"):
                collector.ask_peer(method, "R1", batch, ids, who=who)
    key = MomentsSecret(bytes(32)).exchange_key(study.id, study.sealing)
    message = exchange_key_message(study.id, "R2", key.public)
    request = moments_pb2.IntroduceRequest(
        study_id=study.id,
        exchange_key=key.public,
        signature=collector.lab.key("collector").sign("exchange-key", message),
    )
    with refused_with("not_your_role"):
        collector.call(MomentsPeerServiceStub, "Introduce", "R1", request)
    with refused_with(*UNVERIFIED):  # R3 passes the collector's key off as R2's
        collector.call(MomentsPeerServiceStub, "Introduce", "R1", request, who="R3")
    sealed = collector.ask_peer("GetForms", "R1", batch, ids, who="R2").sealed_values
    keys = {
        role: MomentsSecret.load(collector.lab.folder / role).exchange_key(study.id, study.sealing)
        for role in collector.roles
    }
    assert len(keys["R2"].open(sealed, _info(study, batch, "R1", "R2"))) == 8 * 5 * len(ids)
    for role, info in (
        ("R3", _info(study, batch, "R1", "R2")),
        ("R3", _info(study, batch, "R1", "R3")),
        ("R1", _info(study, batch, "R1", "R2")),
        ("R2", _info(study, batch, "R3", "R2")),
        ("R2", _info(study, batch_name("c"), "R1", "R2")),
    ):
        with pytest.raises(VerificationError):
            keys[role].open(sealed, info)


def test_plans_that_differ_by_provider_are_noticed_before_anything_is_said(rogue: Rogue) -> None:
    """A batch is a set of reports that all right providers hold (docs/theory/verified-moments.md#agreement). The
    collector gives R1 and R2 different reports under one batch id: neither says anything about any report, and
    nothing is added up.
    """
    collector, _ = rogue()
    ids, batch = collector.pending("R1"), batch_name("b")
    collector.assign(batch, ids[:8], ["R1"])
    collector.assign(batch, ids[4:], ["R2"])
    for asker, asked, known in (("R1", "R2", ids[:8]), ("R2", "R1", ids[4:])):
        for method in ("GetForms", "GetVerdict"):
            with refused_with(*UNVERIFIED):
                collector.ask_peer(method, asked, batch, known, who=asker)
        with refused_with(*UNVERIFIED):
            collector.check(batch, [asker])
    for role in collector.roles:
        assert collector.lab.query(role, "SELECT count(*) FROM moments_batches") == [(0,)]
        with refused_with("out_of_step"):
            collector.assign(batch, ids, [role])  # and the plan stays as it was


# Where it is not


def _spellings(value: int) -> list[bytes]:
    little = pack([value])
    return [little, little.hex().encode(), little[::-1].hex().encode(), str(value).encode(), b"%x" % value]


def _spelled(secret: bytes) -> list[bytes]:
    return [secret, secret.hex().encode(), base64.b64encode(secret), base64.urlsafe_b64encode(secret)]


class _Kept(logging.Handler):
    """Every record with all it carries."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {vars(record)}")


Listen = Callable[[Lab], Callable[[], str]]


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listen]:
    """Everything a lab's nodes log from now on, at every level, and every span with its attributes and events."""
    exporter, provider, kept = InMemorySpanExporter(), TracerProvider(), _Kept()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(node_context, "tracer_in_use", lambda: provider.get_tracer("test"))
    loggers: list[logging.Logger] = []

    def heard() -> str:
        spans = [span.to_json() for span in exporter.get_finished_spans()]
        assert any("GetForms" in span for span in spans)
        assert any("added batch=" in line for line in kept.lines)
        return "\n".join([*kept.lines, *spans])

    def begin(lab: Lab) -> Callable[[], str]:
        for name in lab.parties:  # they do not propagate
            loggers.append(logging.getLogger(f"trimask.{name}"))
            loggers[-1].addHandler(kept)
            loggers[-1].setLevel(logging.DEBUG)
        return heard

    yield begin
    for logger in loggers:
        logger.removeHandler(kept)
    provider.shutdown()


@pytest.mark.parametrize("right", [2, 3])
def test_nothing_of_the_exchange_is_in_logs_traces_audit_or_at_the_collector(
    make_lab: Callable[[int], Lab],
    monkeypatch: pytest.MonkeyPatch,
    listen: Listen,
    right: int,
) -> None:
    """Nothing of the exchange is at the collector, or in a log, trace or audit entry
    (docs/theory/verified-moments.md#secret-exchange). In a real run every share of a report and of a form,
    contribution, challenge key and share of the totals is searched for in what was logged and traced, in all audit
    tables, and in everything the collector has on disk.

    Values below 2^40 are left out (lambda is 0, and so are shares of it): a random element is one with probability
    5e-7, and any other is found by accident in a megabyte with probability 1e-12.
    """
    secrets: list[bytes] = []
    values: set[int] = set()
    read, key, fix = Rounds._read, KeyExchange.challenge_key, Deliveries._fix

    def reading(self: Rounds, study: Any, provider: int, secret: bytes, rows: Any) -> Any:
        opened = read(self, study, provider, secret, rows)
        values.update(value for report in opened.values for value in report)
        values.update(opened.shares.flatten().tolist())
        return opened

    async def deriving(self: KeyExchange, study: Any) -> bytes:
        made = await key(self, study)
        secrets.extend([made, self._secret.contribution(study.id)])
        return made

    async def fixing(self: Deliveries, study: Any, totals: Any) -> Any:
        found = await self._store.totals(study.id, split_ids(totals.batch_ids))
        values.update(sum(column) % P for column in zip(*(total for _, total in found), strict=True))
        return await fix(self, study, totals)

    monkeypatch.setattr(Rounds, "_read", reading)
    monkeypatch.setattr(KeyExchange, "challenge_key", deriving)
    monkeypatch.setattr(Deliveries, "_fix", fixing)
    lab = make_lab(right)
    heard = listen(lab)
    signed = open_moments(lab, release_rows=10)
    submit_all(signed, moments_people(12))
    lab.close(signed.study)
    needles = {text for value in values if value >= 1 << 40 for text in _spellings(value)}
    needles |= {text for secret in secrets for text in _spelled(secret)}
    assert len(needles) > 1000 * right
    hay = {"heard": heard().encode()}
    for name in lab.parties:
        rows = lab.query(name, "SELECT kind, details FROM audit")
        assert rows
        hay[f"audit of {name}"] = repr(rows).encode()
    for path in (lab.folder / "collector").rglob("*"):
        if path.is_file():
            hay[str(path)] = path.read_bytes()
    (release,) = (json.loads(text) for place, text in hay.items() if place.endswith("moments.json"))
    for delivery in release["deliveries"]:  # blinded: not even a provider's share of the totals is there
        hay[f"delivery of {delivery['role']}"] = decode_bytes(delivery["values"])
    for place, text in hay.items():
        assert not _found(text, needles), place
    # The control: the search finds what is there.
    assert _found(b"before" + min(needles) + b"after", needles) == {min(needles)}


def _found(text: bytes, needles: set[bytes]) -> set[bytes]:
    by_length: dict[int, set[bytes]] = {}
    for needle in needles:
        by_length.setdefault(len(needle), set()).add(needle)
    found = set()
    for length, wanted in by_length.items():
        for at in range(len(text) - length + 1):
            if text[at : at + length] in wanted:
                found.add(text[at : at + length])
    return found

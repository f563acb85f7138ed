"""From a proposal to an open study through the operators, and everything they can say no to; from the command line."""

from __future__ import annotations

import csv
import dataclasses
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_cli import owner
from trimask_cli.study_file import read_signed, write_seed, write_signed
from trimask_client import Client
from trimask_core.basics.errors import Refused, TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto import keys as sealing
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.guarantee import Guarantee, Neighbours
from trimask_core.study.party import admission_key
from trimask_core.study.signed import SignedStudy, approve
from trimask_core.submit.invitation import Link
from trimask_lab import NUMBERS, Lab, some_people
from trimask_patience import patience
from trimask_proto.v1 import governance_pb2, node_pb2, node_pb2_grpc
from trimask_proto.v1.governance_pb2_grpc import ProposalServiceStub
from trimask_server.collector.provider_status import keep_audit_head
from trimask_server.commands.operator import Operator
from trimask_server.local.keys import issue_certificate, load_authority
from trimask_server.runtime.audit import AuditHead, verify_chain
from trimask_terminal.program import main
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

ANSWERS = {"x": 1.0, "y": 1.0}
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A small cluster of its own, whose R2 takes studies of one collector only."""
    lab = Lab(tmp_path_factory.mktemp("governance"), 2, 1)
    settings = lab.folder / "R2" / "node.toml"
    settings.write_text(
        settings.read_text() + f'allow_collectors = ["{lab.parties["collector"].identity.hex()}"]\n'
    )
    with lab.in_thread(request):
        yield lab


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "220")
    capsys.readouterr()

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


def unsigned(lab: Lab, path: Path, **changes: Any) -> SignedStudy:
    """A study nobody has signed, in a file as `trimask study new` writes it."""
    signed: SignedStudy = lab.new_study(**changes)
    bare = SignedStudy(signed.study)
    write_signed(path, bare.without_seed(), replace=True)
    write_seed(path.with_suffix(".seed"), signed.study.rows.mask_seed)
    return bare


def entries(lab: Lab, name: str, kind: str) -> list[dict[str, Any]]:
    found = lab.on_loop(lab.nodes(name)[0].context.audit.read(0, 10**6))
    return [json.loads(entry.details) for entry in found if entry.kind == kind]


def config(lab: Lab, name: str) -> Path:
    return Path(lab.folder / name / "node.toml")


def test_the_whole_way_to_an_open_study(place: Lab, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "study.json"
    study = unsigned(place, file).study
    short = study.id.hex()[:12]
    status, out, _ = run("study", "propose", file, "--owner", place.owner, "--json")
    assert status == 0
    assert {item["role"]: item["decision"] for item in json.loads(out)} == dict.fromkeys(
        study.parties, "waiting"
    )

    status, out, _ = run("node", "studies", "--config", config(place, "R1"))
    assert short in out
    assert "waiting" in out
    status, out, _ = run("node", "studies", short, "--config", config(place, "R1"))
    words = " ".join(out.split())
    for expected in (
        "as R1", "It is run by Development collector", "Who would have to collude", "NO DIFFERENTIAL PRIVACY",
        "Anybody who has the link may submit", "keeps one component of every row",
    ):  # fmt: skip
        assert expected in words

    for name in ("R1", "L1", "collector"):
        status, out, _ = run("node", "approve", short, "--yes", "--config", config(place, name))
        assert status == 0
    status, out, _ = run(
        "node", "refuse", short, "--reason", "the board meets on Friday", "--config", config(place, "R2")
    )
    assert status == 0
    status, out, _ = run("study", "approvals", file, "--owner", place.owner)
    assert status == 1
    assert "the board meets on Friday" in out
    assert "Still missing: R2" in out
    status, _, err = run("study", "open", file, "--owner", place.owner)
    assert (status, "not approved yet by R2" in err) == (2, True)

    run("node", "approve", short, "--yes", "--config", config(place, "R2"))
    assert run("study", "open", file, "--owner", place.owner)[0] == 0  # gathers what was missing
    assert read_signed(file).verify().id == study.id
    assert run("study", "approvals", file, "--owner", place.owner)[0] == 0
    with Client(file.with_name("study.device.json")) as client:
        client.submit(ANSWERS)

    status, out, _ = run("node", "studies", "--config", config(place, "R2"), "--json")
    (listed,) = [item for item in json.loads(out) if item["id"] == study.id.hex()]
    assert (listed["decision"], listed["state"], listed["role"]) == ("approved", "open", "R2")
    for kind, count in (
        ("study_proposed", 1),
        ("study_refused", 1),
        ("study_approved", 1),
        ("study_registered", 1),
    ):
        assert sum(item["study"] == study.id.hex() for item in entries(place, "R2", kind)) == count


def test_a_person_is_asked_before_a_node_signs(
    place: Lab, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = unsigned(place, tmp_path / "study.json").study
    run("study", "propose", tmp_path / "study.json", "--owner", place.owner)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    status, out, _ = run("node", "approve", study.id.hex(), "--config", config(place, "R1"))
    assert (status, "nothing was signed" in out) == (1, True)
    assert not [item for item in entries(place, "R1", "study_approved") if item["study"] == study.id.hex()]
    assert run("node", "approve", "zz", "--yes", "--config", config(place, "R1"))[0] == 2
    assert "no such study" in run("node", "approve", "00" * 6, "--yes", "--config", config(place, "R1"))[2]
    assert "reason" in run(
        "node", "refuse", study.id.hex(), "--reason", "x" * 501, "--config", config(place, "R1")
    )[2]  # fmt: skip


def test_a_node_does_not_sign_a_promise_that_does_not_hold(place: Lab, run: Run, tmp_path: Path) -> None:
    """The command line checks and so does the node, which is asked here directly."""

    bare = unsigned(place, tmp_path / "study.json")
    promise = Guarantee(Neighbours("record", 1.0), "numerical", "a lie", "none", epsilon=0.1, delta=1e-9)
    lie = dataclasses.replace(
        bare.without_seed().study,
        protection=dataclasses.replace(bare.study.protection, public=promise, collector=promise),
    )
    write_signed(tmp_path / "lie.json", SignedStudy(lie), replace=True)
    assert run("study", "propose", tmp_path / "lie.json", "--owner", place.owner)[0] == 0
    assert (
        "without noise" in run("node", "approve", lie.id.hex(), "--yes", "--config", config(place, "R1"))[2]
    )

    with pytest.raises(Refused, match="without noise"):
        Operator.of(config(place, "R1")).approve(lie.id)
    assert not [item for item in entries(place, "R1", "study_approved") if item["study"] == lie.id.hex()]


def test_a_node_that_cannot_seal_hybrid_says_so_when_it_is_to_approve(
    place: Lab, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A left provider too, which unmasks and has no sealing key on its card. A collector opens nothing sealed."""
    study = unsigned(place, tmp_path / "study.json").study
    assert study.sealing == "hybrid"
    assert run("study", "propose", tmp_path / "study.json", "--owner", place.owner)[0] == 0
    monkeypatch.setattr(sealing, "_HYBRID_LIBRARY", None)
    for name in ("R1", "L1"):
        with pytest.raises(Refused, match="ML-KEM"):
            Operator.of(config(place, name)).approve(study.id)
        found = entries(place, name, "study_approved")
        assert not [item for item in found if item["study"] == study.id.hex()]
    Operator.of(config(place, "collector")).approve(study.id)


def test_refusing_an_open_study_stops_intake_there(place: Lab, run: Run) -> None:
    signed = place.open_study()  # approved by files: it was never proposed
    study_id = signed.study.id.hex()
    with Client(signed, attempts=1) as client:
        first = client.prepare(ANSWERS)
        receipt = client.send(first)
        status, out, _ = run(
            "node",
            "refuse",
            study_id,
            "--reason",
            "consent form was changed",
            "--config",
            config(place, "R2"),
        )
        assert (status, "accepts no more submissions" in out) == (0, True)
        assert client.send(first) == receipt  # what is in is in
        with pytest.raises(Refused) as caught:
            client.submit(ANSWERS)
        assert caught.value.reason == "study_refused"
        place.stop("R2")
        place.start("R2")  # it holds across a restart
        with pytest.raises(Refused) as caught:
            client.submit(ANSWERS)
        assert caught.value.reason == "study_refused"
        with pytest.raises(TrimaskError, match="refused the study: consent form was changed"):
            owner.open_study(signed, place.owner)
        run("node", "approve", study_id, "--yes", "--config", config(place, "R2"))
        client.submit(ANSWERS)
    status, _, err = run("node", "refuse", study_id, "--reason", "no", "--config", config(place, "collector"))
    assert (status, "study close" in err) == (4, True)


def test_collectors_that_are_not_allowed(place: Lab, tmp_path: Path) -> None:
    """A second collector's study, signed by everybody, with that collector's certificate: R2 does not list it."""

    key = SigningKey.generate()
    other = dataclasses.replace(
        place.parties["collector"], tls_name="other.trimask.local", identity=key.public
    )
    study = create_study(
        load_definition(NUMBERS), other, [place.parties["R1"], place.parties["R2"]], [place.parties["L1"]],
        (place.owner / "ca.pem").read_text(), 1, SystemRandom(), admission_key(place.owner).public,
    )  # fmt: skip
    signed = SignedStudy(study)
    for name in ("R1", "R2", "L1"):
        signed = signed.with_approval(approve(study, place.key(name), 1))
    signed = signed.with_approval(approve(study, key, 1)).without_seed()
    folder = place.folder / "other"
    folder.mkdir()
    issued = issue_certificate(load_authority(place.folder / "authority"), "other.trimask.local")
    (folder / "tls.pem").write_bytes(issued.certificate)
    (folder / "tls.key").write_bytes(issued.private_key)
    (folder / "ca.pem").write_bytes((place.owner / "ca.pem").read_bytes())
    body = signed.to_json().encode()
    with place.channel_as("other", "R2") as channel:
        for call, request in (
            (
                ProposalServiceStub(channel).ProposeStudy,
                governance_pb2.ProposeStudyRequest(signed_study=body),
            ),
            (
                node_pb2_grpc.NodeServiceStub(channel).RegisterStudy,
                node_pb2.RegisterStudyRequest(signed_study=body),
            ),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(request, timeout=patience(10))  # type: ignore[operator]
            error: Any = caught.value
            assert dict(error.trailing_metadata())["trimask-reason"] == "collector_not_allowed"
    assert not place.query("R2", "SELECT 1 FROM studies WHERE study_id = ?", (study.id,))
    with place.channel_as("other", "R1") as channel:  # R1 takes any
        ProposalServiceStub(channel).ProposeStudy(
            governance_pb2.ProposeStudyRequest(signed_study=body), timeout=patience(10)
        )


def test_draining(place: Lab, run: Run) -> None:
    signed = place.open_study()
    people = some_people(48, seed=3)
    pauses: list[float] = []
    with Client(signed, attempts=2, sleep=pauses.append) as client:
        for answers in people[:47]:
            client.submit(answers)
        last = client.prepare(people[47])
        status, out, _ = run("node", "drain", "--config", config(place, "R1"), "--json")
        assert json.loads(out)["draining"] is True
        with pytest.raises(Refused, match="takes no new work"):  # tried again, then for the queue to keep
            client.send(last)
        assert len(pauses) == 1
        assert json.loads(run("node", "status", "--config", config(place, "R1"), "--json")[1])["draining"]
        owner.close_study(signed.study, place.owner)
        # Two refusals were the device's; the next is the collector's, which wants to have the rows checked.
        drained = place.wait(
            signed.study,
            lambda status: (status.refusals["R1"] or {}).get("draining", 0) > 2 and status.pending_rows == 47,
        )
        assert (drained.masking_rows, drained.pooled_blocks, drained.state) == (0, 0, "closing")
        run("node", "drain", "--resume", "--config", config(place, "R1"))
    status = place.wait(signed.study, lambda status: status.state == "closed")
    assert status.failed_attempts == 0
    assert len(entries(place, "R1", "drain_begun")) == len(entries(place, "R1", "drain_ended")) == 1


def test_the_log_is_proved_whole_and_exported_for_others(place: Lab, run: Run, tmp_path: Path) -> None:
    signed = place.open_study()
    status, out, _ = run("node", "audit", "--config", config(place, "R1"), "--verify")
    assert (status, out.startswith("Whole: ")) == (0, True)
    status, out, _ = run("node", "audit", "--config", config(place, "R1"), "--since", "1d")
    assert "study_registered" in out
    log = tmp_path / "r1.log"
    assert run("node", "audit", "--config", config(place, "R1"), "--out", log)[0] == 0
    heads = tmp_path / "heads.json"
    write_signed(tmp_path / "study.json", signed.without_seed(), replace=True)
    heads.write_text(run("study", "status", tmp_path / "study.json", "--json")[1])
    card = place.folder / "R1" / "node.json"
    offline = ("node", "audit", "--file", log, "--identity", card, "--verify")
    assert run(*offline)[0] == 0
    # Another node's identity, a changed entry, an entry less at the end.
    assert (
        run("node", "audit", "--file", log, "--identity", place.folder / "R2" / "node.json", "--verify")[0]
        == 1
    )
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines).replace("node_started", "node_stopped", 1))
    status, out, _ = run(*offline, "--json")
    assert (status, json.loads(out)["broken_at"]) == (1, 1)
    log.write_text("".join(lines[:-1]))
    status, out, _ = run(*offline)
    assert (status, "cut short" in out) == (1, True)
    (tmp_path / "r1.log.head").unlink()
    assert run(*offline)[0] == 0  # without a head nobody can tell
    status, out, _ = run(*offline, "--heads", heads)
    assert (status, "cut short" in out) == (1, True)  # with the collector's, everybody can


def test_invitations_from_the_command_line(place: Lab, run: Run, tmp_path: Path) -> None:
    signed = place.open_study(admission="invited")
    file = tmp_path / "study.json"
    write_signed(file, signed.without_seed(), replace=True)
    common = ("study", "invite", file, "--owner", place.owner)
    assert "--count" in run(*common)[2]
    table, links, codes, sheet = (tmp_path / name for name in ("i.csv", "i.txt", "qr", "sheet.html"))
    status, out, _ = run(
        *common,
        "--count",
        3,
        "--expires",
        "2d",
        "--csv",
        table,
        "--links",
        links,
        "--qr",
        codes,
        "--sheet",
        sheet,
    )
    assert (status, "3 invitations" in out) == (0, True)
    made = [Link.parse(line) for line in links.read_text().splitlines()]
    with table.open(newline="") as opened:
        assert [row["link"] for row in csv.DictReader(opened)] == [str(link) for link in made]
    assert [path.name for path in sorted(codes.iterdir())] == [f"invitation-000{n}.svg" for n in (1, 2, 3)]
    assert sheet.read_text().count("<figure>") == 3
    for path in (table, links, sheet, *codes.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for link in made:
        assert link.invitation is not None
        with Client(signed, invitation=link.invitation) as client:
            client.submit(ANSWERS)
    for again in (("--csv", table), ("--qr", codes)):  # nothing is written over, and nothing signed for it
        assert "never written over" in (err := run(*common, "--count", 1, *again)[2]) or "not empty" in err
    status, out, _ = run(*common, "--count", 2, "--json")
    assert len(json.loads(out)["links"]) == 2


def test_tokens_from_the_command_line(place: Lab, run: Run, tmp_path: Path) -> None:
    signed = place.open_study(access="token")
    file, kept = tmp_path / "study.json", tmp_path / "ada.token"
    write_signed(file, signed.without_seed(), replace=True)
    common = (file, "--owner", place.owner)
    status, out, err = run(
        "study", "token", "new", *common, "--name", "Ada", "--expires", "90d", "--out", kept
    )
    text = kept.read_text().strip()
    assert (status, stat.S_IMODE(kept.stat().st_mode), text in out + err) == (0, 0o600, False)
    assert "exists already" in run("study", "token", "new", *common, "--name", "Ada", "--out", kept)[2]
    wrong = tmp_path / "none.token"
    assert (
        "scopes" in run("study", "token", "new", *common, "--name", "A", "--scope", "all", "--out", wrong)[2]
    )
    assert not wrong.exists()
    assert "needs a token" in run("pull", file, "--list")[2]
    status, out, _ = run("pull", file, "--list", "--token-file", kept)
    assert (status, out) == (0, "Nothing is published; `trimask study status` says why.\n")
    (listed,) = json.loads(run("study", "token", "list", *common, "--json")[1])
    assert (listed["name"], listed["state"], listed["scopes"]) == ("Ada", "valid", ["datasets"])
    assert "Ada" in run("study", "token", "list", *common)[1]
    assert run("study", "token", "revoke", *common, listed["id"])[0] == 0
    assert "revoked" in run("pull", file, "--list", "--token-file", kept)[2]


def test_nothing_of_a_person_is_in_a_log(place: Lab) -> None:
    signed = place.open_study(admission="open")
    with Client(signed) as client:
        receipt = client.submit(ANSWERS)
    for name in ("R1", "R2", "L1", "collector"):
        node = place.nodes(name)[0].context
        found = place.on_loop(node.audit.read(0, 10**6))
        assert verify_chain(found, node.keys.identity.public).whole
        text = "".join(entry.details for entry in found)
        assert receipt.submission_id.hex() not in text
        assert "127.0.0.1" not in text


def test_the_collector_notices_a_log_that_goes_back(place: Lab) -> None:

    collector, provider = place.nodes("collector")[0].context, place.nodes("R1")[0].context
    party = place.parties["R1"]

    async def see(head: AuditHead) -> None:
        message = governance_pb2.AuditHead(sequence=head.sequence, hash=head.hash, signature=head.signature)
        await keep_audit_head(collector, party, message)

    async def counts() -> dict[str, int]:  # on the node's own thread, which also saves them
        return collector.refusals.as_dict()

    place.on_loop(provider.audit.record("tried", what="a second entry, whatever ran before"))
    first = place.on_loop(provider.audit.read(0, 1))[0]
    head = place.on_loop(provider.audit.head())
    before = place.on_loop(counts()).get("peer_log_rewritten", 0)
    place.on_loop(see(head))
    place.on_loop(see(head))
    assert place.on_loop(counts()).get("peer_log_rewritten", 0) == before
    place.on_loop(
        see(dataclasses.replace(head, signature=bytes(64)))
    )  # a forged one is counted and changes nothing
    assert place.on_loop(counts())["bad_audit_head"] == 1
    place.on_loop(see(AuditHead(1, first.hash, first.signature)))
    assert place.on_loop(counts())["peer_log_rewritten"] == before + 1
    assert entries(place, "collector", "peer_log_rewritten")[-1]["had"] == head.sequence


def test_a_status_question_takes_the_head_of_every_log(place: Lab) -> None:
    signed = place.open_study()
    place.on_loop(place.nodes("R1")[0].context.audit.record("tried", what="a head to be seen"))
    heads = {name: place.on_loop(place.nodes(name)[0].context.audit.head()) for name in ("R1", "R2", "L1")}
    place.wait(signed.study, lambda _: True)
    seen = dict(place.query("collector", "SELECT identity, sequence FROM witnessed_heads"))
    for name, head in heads.items():
        assert seen[place.parties[name].identity] >= head.sequence


def test_changed_keys_are_in_the_log(place: Lab) -> None:

    assert not entries(place, "L1", "keys_changed")
    place.stop("L1")
    renewed = issue_certificate(load_authority(place.folder / "authority"), "l1.trimask.local")
    (place.folder / "L1" / "tls.pem").write_bytes(renewed.certificate)
    (place.folder / "L1" / "tls.key").write_bytes(renewed.private_key)
    place.start("L1")
    assert entries(place, "L1", "keys_changed") == [{"changed": ["certificate_sha256"]}]

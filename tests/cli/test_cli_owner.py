"""`trimask study open|status|close` against a collector's two ports, over real TLS."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_cli.study_file import device_file, read_signed, seed_file, write_signed
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.definition import Study
from trimask_core.study.party import read_secret
from trimask_core.study.signed import SignedStudy, approve
from trimask_proto.v1 import common_pb2, study_pb2, study_pb2_grpc
from trimask_server.local.keys import load_authority, make_authority, make_owner
from trimask_terminal.exits import Exit

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err


@dataclass
class Collector(study_pb2_grpc.StudyServiceServicer, study_pb2_grpc.StudyOwnerServiceServicer):
    """Remembers what it was asked, and by whom."""

    opened: list[bytes] = field(default_factory=list)
    closed: list[bytes] = field(default_factory=list)
    callers: list[str] = field(default_factory=list)

    def _remember(self, context: grpc.ServicerContext) -> None:
        self.callers += [
            name.decode() for name in context.auth_context().get("x509_subject_alternative_name", [])
        ]

    def OpenStudy(self, request: Any, context: grpc.ServicerContext) -> study_pb2.OpenStudyResponse:  # noqa: N802
        self._remember(context)
        self.opened.append(request.signed_study)
        return study_pb2.OpenStudyResponse()

    def CloseStudy(self, request: Any, context: grpc.ServicerContext) -> study_pb2.CloseStudyResponse:  # noqa: N802
        self._remember(context)
        if request.order.study_id in self.closed:
            context.set_trailing_metadata((("trimask-reason", "already_closing"),))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the study is closing already")
        self.closed.append(request.order.study_id)
        return study_pb2.CloseStudyResponse()

    def GetStudyStatus(self, *_: object) -> study_pb2.GetStudyStatusResponse:  # noqa: N802
        return study_pb2.GetStudyStatusResponse(
            state=study_pb2.STUDY_STATE_CLOSING
            if self.closed and self.callers
            else study_pb2.STUDY_STATE_OPEN,
            pending_rows=17,
            pooled_rows=1152,
            pooled_blocks=9,
            failed_attempts=2,
            note="keep going",
            refusals=[
                study_pb2.NodeRefusals(
                    role="R1", reachable=True, counts=[common_pb2.RefusalCount(reason="replayed", count=3)]
                ),
                study_pb2.NodeRefusals(role="L2", reachable=False),
            ],
        )


@dataclass(frozen=True)
class Site:
    """A running collector, the approved study's file, and the keys."""

    collector: Collector
    file: Path
    keys: Path
    study: Study


@pytest.fixture
def site(made: Path, tmp_path: Path) -> Iterator[Site]:
    keys = tmp_path / "keys"
    shutil.copytree(made / "keys", keys)
    folder = keys / "collector"
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    study_pb2_grpc.add_StudyServiceServicer_to_server(collector, server)
    study_pb2_grpc.add_StudyOwnerServiceServicer_to_server(collector, server)
    pair = [((folder / "tls.key").read_bytes(), (folder / "tls.pem").read_bytes())]
    public = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(pair))
    roots = (keys / "authority" / "ca.pem").read_bytes()
    peer = server.add_secure_port(
        "127.0.0.1:0", grpc.ssl_server_credentials(pair, roots, require_client_auth=True)
    )
    server.start()
    study = read_signed(made / "study.json").study
    party = replace(study.collector, address=f"127.0.0.1:{public}", peer_address=f"127.0.0.1:{peer}")
    study = replace(study, collector=party)
    signed = SignedStudy(study)
    for role in study.parties:
        signed = signed.with_approval(
            approve(study, SigningKey(read_secret(keys / role / "identity.key")), 0)
        )
    file = tmp_path / "study.json"
    write_signed(file, signed, replace=False)
    shutil.copy(seed_file(made / "study.json"), seed_file(file))
    yield Site(collector, file, keys, study)
    server.stop(None).wait()


def test_owner_opens_and_closes_by_certificate(trimask: Run, site: Site) -> None:
    opened = trimask("study", "open", site.file, "--owner", site.keys / "owner")
    assert (opened.status, opened.err) == (0, "")
    assert site.study.id.hex() in opened.out
    sent = SignedStudy.from_json(site.collector.opened[0]).verify()
    assert sent == site.study
    assert sent.rows.mask_seed == read_secret(
        seed_file(site.file)
    )  # the collector needs it, and so do devices
    assert (
        SignedStudy.from_json(device_file(site.file).read_text()).verify().rows.mask_seed
        == sent.rows.mask_seed
    )
    assert trimask("study", "close", site.file, "--owner", site.keys / "owner", "--yes").status == 0
    assert site.collector.closed == [site.study.id]
    assert site.collector.callers == ["owner.trimask.local"] * 2


def test_refusal_is_the_collector_s_sentence(trimask: Run, site: Site) -> None:
    site.collector.closed.append(site.study.id)  # a moment after it was asked how it stands
    again = trimask("study", "close", site.file, "--owner", site.keys / "owner", "--yes")
    assert (again.status, again.err) == (Exit.REFUSED, "trimask: the study is closing already\n")


def test_study_not_approved_is_not_sent(trimask: Run, site: Site) -> None:
    write_signed(site.file, SignedStudy(site.study), replace=True)
    result = trimask("study", "open", site.file, "--owner", site.keys / "owner")
    assert result.status == 2
    assert "not approved yet by R1" in result.err
    assert not site.collector.opened


def test_owner_of_another_authority_is_not_let_in(trimask: Run, site: Site, tmp_path: Path) -> None:
    make_owner(tmp_path / "stranger", make_authority())
    result = trimask("study", "close", site.file, "--owner", tmp_path / "stranger", "--yes")
    assert (result.status, result.err.count("\n")) == (Exit.NETWORK, 1)
    assert "could not be reached" in result.err
    assert not site.collector.closed


def test_node_is_not_taken_for_the_collector(trimask: Run, site: Site) -> None:
    """The server's certificate says collector; a study that expects another name does not talk to it."""
    party = replace(site.study.collector, tls_name="another.trimask.local")
    write_signed(site.file, SignedStudy(replace(site.study, collector=party)), replace=True)
    result = trimask("study", "close", site.file, "--owner", site.keys / "owner")
    assert result.status == Exit.NETWORK
    assert not site.collector.closed


def test_missing_owner_keys_are_one_line(trimask: Run, site: Site, tmp_path: Path) -> None:
    result = trimask("study", "close", site.file, "--owner", tmp_path / "nowhere", "--yes")
    assert (result.status, result.err.count("\n")) == (Exit.USAGE, 1)
    assert "nowhere has no tls.pem and no tls.key: --owner is the owner's folder of keys" in result.err


def test_status_needs_no_certificate(trimask: Run, site: Site) -> None:
    shown = trimask("study", "status", site.file)
    assert shown.status == 0
    for words in ("open", "17 rows", "1,152 rows (9 blocks", "replayed 3", "did not answer", "keep going"):
        assert words in shown.out
    data = json.loads(trimask("study", "status", site.file, "--json").out)
    assert data["state"] == "open"
    assert data["refusals"] == {"R1": {"replayed": 3}, "L2": None}
    assert data["pooled_rows"] == 1152


def test_keys_authority_reads_back(site: Site) -> None:
    authority = load_authority(site.keys / "authority")
    assert authority.certificate == (site.keys / "owner" / "ca.pem").read_bytes()

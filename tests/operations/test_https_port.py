"""The participant's calls over HTTPS: the same answers, refusals and counters as over gRPC, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import socket
import ssl
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from google.protobuf import descriptor_pb2, descriptor_pool

from trimask_client import Client
from trimask_client.transport import Endpoint
from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.guarantee import Budget
from trimask_core.study.party import Web, admission_key
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation
from trimask_grpcio import GrpcioTransport
from trimask_https import HOST, WEB, Answer, HttpsTransport, post, tls
from trimask_lab import NUMBERS, Lab, exact_gram, some_people
from trimask_moments import open_moments
from trimask_patience import patience
from trimask_postgres import LocalPostgres
from trimask_proto.v1 import release_pb2, study_pb2, submission_pb2
from trimask_server.access.permissions import BROWSER_CALLS, TABLE
from trimask_server.local.cluster import ThreadCluster
from trimask_server.local.keys import issue_certificate, load_authority
from trimask_server.right.rows import RowStore
from trimask_server.runtime import https_port, ports
from trimask_server.runtime.inbound_limits import Arrivals
from trimask_server.settings.config import read_config
from trimask_web import REPOSITORY, development_package, run_node

ANSWERS = {"x": 2.5, "y": 1.0}

SUBMIT, WITHDRAW, KEYS, ASK = (
    f"/trimask_proto.v1.SubmissionService/{name}"
    for name in ("Submit", "Withdraw", "GetSealingKeys", "AskSubmission")
)
STUDY, STATUS = (f"/trimask_proto.v1.StudyService/{name}" for name in ("GetStudy", "GetStudyStatus"))
ASK_BUDGET = "/trimask_proto.v1.ReleaseService/GetBudget"
ELSEWHERE = "https://elsewhere.example"


class WebLab(Lab):
    """The smallest cluster that browsers can reach."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 2, 1, https=True)
        self.tls = tls(self.owner / "ca.pem")

    def open_web(self, definition: str = NUMBERS, **changes: Any) -> SignedStudy:
        return self.open_study(definition + WEB, **changes)

    def refusals(self, name: str) -> Counter[str]:
        """As the node counts them, before it writes them down."""
        return Counter(self.node(name).context.refusals.as_dict())

    def post(self, name: str, path: str, body: bytes = b"", **more: Any) -> Answer:
        return post(self.parties[name].https, path, body, self.tls, **more)

    def by_grpc(self, name: str, path: str, body: bytes) -> bytes | Refused:
        party = self.parties[name]
        transport = GrpcioTransport()
        try:
            roots = (self.owner / "ca.pem").read_text()
            return transport.call(Endpoint(party.address, party.tls_name, roots), path, body, 20)
        except Refused as error:
            return error
        finally:
            transport.close()

    def served(self, name: str) -> int:
        """The serial number of the certificate a browser is shown."""
        host, _, port = self.parties[name].https.removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=patience(10)) as plain:
            with self.tls.wrap_socket(plain, server_hostname=host) as secure:
                return x509.load_der_x509_certificate(secure.getpeercert(True) or b"").serial_number


@pytest.fixture(scope="module")
def web_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebLab]:
    lab = WebLab(tmp_path_factory.mktemp("https"))
    with ThreadCluster(lab.folder) as lab.cluster:
        yield lab


@pytest.fixture(scope="module")
def signed(web_lab: WebLab) -> SignedStudy:
    return web_lab.open_web()


@pytest.fixture
def keys_for_web(tmp_path: Path) -> WebLab:
    """Keys and settings, nothing running."""
    return WebLab(tmp_path)


@contextlib.contextmanager
def alone(lab: WebLab, *names: str) -> Iterator[None]:
    """Some nodes of a cluster, where no study is needed."""
    lab.cluster = ThreadCluster(lab.folder)
    lab.cluster.workers = dict.fromkeys(names, "")
    with lab.cluster:
        yield


def browser(lab: Lab, signed: SignedStudy, origin: str | None = HOST, **more: Any) -> Client:
    transport = HttpsTransport(signed.study, lab.owner / "ca.pem", origin)
    return Client(signed, attempts=1, transport=transport, **more)


def test_a_device_takes_part_over_https_as_over_grpc(web_lab: WebLab, signed: SignedStudy) -> None:
    """Sealing keys, submitting, sending again by the other way, withdrawing; receipts are verified by the client."""
    with browser(web_lab, signed) as page, Client(signed, attempts=1) as app:
        submission = page.prepare(ANSWERS)
        receipt = page.send(submission)
        assert app.send(submission) == receipt  # the same bytes by the other way: the same receipt
        assert page.send(submission) == receipt
        assert submission.submission_id in web_lab.rows("R1", signed.study.id)
        for provider in (1, 2):
            key = submission.withdrawal_key
            assert page.withdraw(key, provider) == app.withdraw(key, provider)
        assert submission.submission_id not in web_lab.rows("R1", signed.study.id)
        for client in (page, app):
            with pytest.raises(Refused) as caught:
                client.send(submission)
            assert caught.value.reason == "submission_withdrawn"


def _messages(signed: SignedStudy) -> dict[str, tuple[str, Any]]:
    study_id = signed.study.id
    return {
        STUDY: ("collector", study_pb2.GetStudyRequest(study_id=study_id, for_device=True)),
        ASK_BUDGET: ("collector", release_pb2.GetBudgetRequest(study_id=study_id)),
        SUBMIT: ("R1", submission_pb2.SubmitRequest(study_id=study_id)),
        WITHDRAW: ("R1", submission_pb2.WithdrawRequest(study_id=study_id, withdrawal_key=bytes(5))),
        KEYS: ("R1", submission_pb2.GetSealingKeysRequest()),
        ASK: ("R1", submission_pb2.AskSubmissionRequest(study_id=study_id, submission_id=bytes(16))),
        STATUS: ("collector", study_pb2.GetStudyStatusRequest(study_id=study_id)),
    }


def test_every_participants_call_is_among_these(signed: SignedStudy) -> None:
    assert set(_messages(signed)) == set(BROWSER_CALLS)


@pytest.mark.parametrize("kind", ["good", "unknown study", "no message", "too large"])
@pytest.mark.parametrize("method", sorted(BROWSER_CALLS))
def test_each_call_gives_the_same_both_ways(
    web_lab: WebLab, signed: SignedStudy, method: str, kind: str
) -> None:
    """The same answer or the same refusal: reason, status, words and count."""
    node, message = _messages(signed)[method]
    if kind == "unknown study" and hasattr(message, "study_id"):
        message.study_id = bytes(32)
    body = {"no message": b"\xff" * 20, "too large": bytes(140_000)}.get(kind, message.SerializeToString())
    if kind == "too large":
        body = bytes(131_073)  # what gRPC still reads
    start = web_lab.refusals(node)
    one = web_lab.by_grpc(node, method, body)
    middle = web_lab.refusals(node)
    other = web_lab.post(node, method, body, headers={"Origin": HOST})
    end = web_lab.refusals(node)
    assert end - middle == middle - start
    if isinstance(one, Refused):
        assert other.reason == one.reason
        assert other.error["message"] == str(one)
        assert (middle - start).total() == 1
        assert other.headers["access-control-allow-origin"] == HOST
        assert other.headers["access-control-expose-headers"] == "trimask-reason, retry-after-ms"
    else:
        assert other.status == 200
        assert other.headers["content-type"] == "application/proto"
        if method not in (KEYS, STATUS):  # signed anew, and counted on
            assert other.body == one
    assert (kind == "good" and method in (STUDY, KEYS, STATUS, ASK)) <= (other.status == 200)


def test_a_budget_is_told_both_ways(web_lab: WebLab) -> None:
    signed = open_moments(web_lab, budget=Budget(mu=1.0), web=Web((HOST,), "ab" * 32))
    with browser(web_lab, signed) as page, Client(signed, attempts=1) as app:
        assert page.budget() == app.budget()


def test_an_invited_study(web_lab: WebLab) -> None:
    signed = web_lab.open_web(admission="invited")
    with browser(web_lab, signed) as page:
        with pytest.raises(Refused) as caught:
            page.submit(ANSWERS)
        assert caught.value.reason == "no_invitation"
    fresh = Invitation.draw(signed.study.id, 4_000_000_000_000, SystemRandom())
    invitation = fresh.signed_with(admission_key(web_lab.owner))
    with browser(web_lab, signed, invitation=invitation) as page:
        page.submit(ANSWERS)
    with browser(web_lab, signed, invitation=invitation) as again:
        with pytest.raises(Refused) as caught:
            again.submit(ANSWERS)
        assert caught.value.reason == "invitation_used"


def test_connects_own_client_works_unchanged(web_lab: WebLab, signed: SignedStudy, tmp_path: Path) -> None:
    """@connectrpc/connect-node, in its binary form and as JSON, with descriptors and no generated code."""
    described = descriptor_pb2.FileDescriptorSet()
    for name in ("common", "governance", "study", "submission"):  # each after those it imports
        found = descriptor_pool.Default().FindFileByName(f"trimask_proto/v1/{name}.proto")
        file = described.file.add()
        found.CopyToProto(file)
        for message in file.message_type:
            for field in message.field:  # which protoc writes for plugins, and Python's copy leaves out
                field.json_name = (
                    found.message_types_by_name[message.name].fields_by_name[field.name].json_name
                )
    (tmp_path / "described").write_bytes(described.SerializeToString())
    package = development_package("@connectrpc/connect-node")
    printed = run_node(
        REPOSITORY / "tests" / "web" / "connect_client.js",
        package.parents[2],
        tmp_path / "described",
        web_lab.owner / "ca.pem",
        web_lab.parties["collector"].https,
        web_lab.parties["R1"].https,
        signed.study.id.hex(),
        seconds=60,
    )
    binary, as_json = json.loads(printed)
    assert binary == as_json
    assert binary["title"] == "Numbers"
    assert binary["key"] == web_lab.parties["R1"].sealing.hex()  # the first listed of its two
    assert binary["unknown"] == ["NotFound", "this node does not know that study", "unknown_study"]
    assert binary["malformed"] == ["InvalidArgument", "submission_id must have 16 bytes", "malformed"]
    assert binary["elsewhere"][0::2] == ["Unimplemented", "not_served"]


def test_connects_json(web_lab: WebLab, signed: SignedStudy) -> None:
    as_json = {"Content-Type": "application/json; charset=utf-8"}
    found = web_lab.post("R1", KEYS, b"{}", headers=as_json)
    assert found.headers["content-type"] == "application/json"
    assert set(json.loads(found.body)["keys"][0]) >= {"publicKey", "signature"}
    asked = json.dumps({"studyId": "AAAA", "later": 1}).encode()
    assert web_lab.post("collector", STUDY, asked, headers=as_json).reason == "unknown_study"
    for bad in (b"", b"{", b'{"studyId": 5}', b"\xff"):
        refused = web_lab.post("collector", STUDY, bad, headers=as_json)
        assert (refused.status, refused.reason) == (400, "malformed")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Connect-Protocol-Version": "2"}, 400),
        ({"Connect-Timeout-Ms": "soon"}, 400),
        ({"Connect-Timeout-Ms": "12345678901"}, 400),
        ({"Connect-Timeout-Ms": "20000"}, 200),
        ({"Content-Encoding": "gzip"}, 400),
        ({"Content-Encoding": "identity"}, 200),
        ({"Content-Type": "text/plain"}, 415),  # what a page may send without asking first
        ({"Content-Type": "application/grpc-web+proto"}, 415),
    ],
)
def test_the_protocols_headers(web_lab: WebLab, headers: dict[str, str], status: int) -> None:
    assert web_lab.post("R1", KEYS, headers=headers).status == status


def test_a_callers_time(web_lab: WebLab, signed: SignedStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that never answers: the caller is told when its time is over."""

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(RowStore, "insert", never)
    with browser(web_lab, signed) as page:
        request = page.upload_request(page.prepare(ANSWERS), 1)[1]
    late = web_lab.post("R1", SUBMIT, request, headers={"Connect-Timeout-Ms": "50"})
    assert (late.status, late.error["code"]) == (504, "deadline_exceeded")


# What is not there


@pytest.mark.parametrize("node", ["collector", "R1"])
def test_no_other_call_is_reachable(web_lab: WebLab, signed: SignedStudy, node: str) -> None:
    """Every call of ours that is no participant's: refused and counted, as on gRPC's public port."""
    ours = [
        method for method in TABLE if method.startswith("/trimask_proto.") and method not in BROWSER_CALLS
    ]
    assert len(ours) > 40
    for method in ours:
        before = web_lab.node(node).context.refusals.as_dict()
        answer = web_lab.post(node, method, headers={"Origin": HOST})
        assert answer.status in (401, 403, 501), method
        after = web_lab.node(node).context.refusals.as_dict()
        assert answer.reason in ("not_your_role", "bad_token", "not_served"), method
        assert after[answer.reason] == before.get(answer.reason, 0) + 1


@pytest.mark.parametrize(
    "path", ["/", "/s/abc", "/metrics", "/trimask_proto.v1.X/Y", "/grpc.health.v1.Health/Check"]
)
def test_other_paths(web_lab: WebLab, path: str) -> None:
    assert web_lab.post("R1", path).status in (404, 501)
    assert web_lab.post("R1", path, method="GET").status in (404, 405)


def test_other_methods(web_lab: WebLab) -> None:
    for method in ("GET", "PUT", "DELETE", "HEAD"):
        answer = web_lab.post("R1", KEYS, method=method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


# Origins


def _preflight(lab: WebLab, origin: str, path: str = SUBMIT) -> Answer:
    asked = {"Origin": origin, "Access-Control-Request-Method": "POST",
             "Access-Control-Request-Headers": "connect-protocol-version,content-type"}  # fmt: skip
    return lab.post("R1", path, method="OPTIONS", headers=asked)


def test_preflight_of_a_named_host(web_lab: WebLab, signed: SignedStudy) -> None:
    answer = _preflight(web_lab, HOST)
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == HOST
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert "connect-protocol-version" in answer.headers["access-control-allow-headers"]
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize(
    "origin",
    [ELSEWHERE, "null", "*", HOST.replace("https", "http"), HOST + ":8443", HOST + ".evil.example", HOST + "/", ""],
)  # fmt: skip
def test_pages_of_other_hosts_are_kept_out(web_lab: WebLab, signed: SignedStudy, origin: str) -> None:
    before = web_lab.refusals("R1")["wrong_origin"]
    assert not [name for name in _preflight(web_lab, origin).headers if name.startswith("access-control")]
    with browser(web_lab, signed, origin) as page:
        submission = page.prepare(ANSWERS)
        answer = web_lab.post("R1", SUBMIT, page.upload_request(submission, 1)[1], headers={"Origin": origin})
    assert (answer.status, answer.reason) == (403, "wrong_origin")
    assert not [
        name for name in answer.headers if name.startswith("access-control")
    ]  # and it cannot read why
    assert submission.submission_id not in web_lab.rows("R1", signed.study.id)
    assert web_lab.refusals("R1")["wrong_origin"] >= before + 2


def test_a_host_of_one_study_is_none_of_anothers(web_lab: WebLab, signed: SignedStudy) -> None:
    other = web_lab.open_study(NUMBERS + WEB.replace(HOST, ELSEWHERE))
    plain = web_lab.open_study(NUMBERS)
    for study, origin, reason in (
        (signed, HOST, "malformed"), (signed, ELSEWHERE, "wrong_origin"), (other, ELSEWHERE, "malformed"),
        (other, HOST, "wrong_origin"), (plain, HOST, "wrong_origin"), (plain, ELSEWHERE, "wrong_origin"),
    ):  # fmt: skip
        message = submission_pb2.SubmitRequest(study_id=study.study.id).SerializeToString()
        assert web_lab.post("R1", SUBMIT, message, headers={"Origin": origin}).reason == reason
        assert web_lab.post("R1", SUBMIT, message).reason == "malformed"  # a program, no page
    web_lab.close(other.study)
    assert "access-control-allow-origin" not in _preflight(web_lab, ELSEWHERE).headers  # nobody names it now


# Limits


@pytest.fixture
def tight(keys_for_web: WebLab) -> Iterator[WebLab]:
    """R2 takes three calls of an address, then one in ten seconds."""
    path = keys_for_web.folder / "R2" / "node.toml"
    lines = "rate_limit_per_second = 0.1\nrate_limit_burst = 3\n"
    path.write_text(path.read_text().replace("rate_limit_per_second = 0 ", "#") + lines)
    with alone(keys_for_web, "R2"):
        yield keys_for_web


def test_an_address_has_one_bucket_for_both_ways(tight: WebLab) -> None:
    assert tight.post("R2", KEYS).status == 200
    assert isinstance(tight.by_grpc("R2", KEYS, b""), bytes)
    assert tight.post("R2", KEYS).status == 200
    refused = tight.post("R2", KEYS)
    assert (refused.status, refused.reason, refused.error["code"]) == (
        429,
        "rate_limited",
        "resource_exhausted",
    )
    assert 1000 < int(refused.headers["retry-after-ms"]) <= 10_000
    found = tight.by_grpc("R2", KEYS, b"")
    assert isinstance(found, Refused)
    assert found.reason == "rate_limited"
    assert tight.refusals("R2")["rate_limited"] == 2


def test_while_it_drains(keys_for_web: WebLab) -> None:
    with ThreadCluster(keys_for_web.folder) as keys_for_web.cluster:
        signed = keys_for_web.open_web()
        keys_for_web.on_loop(keys_for_web.node("R1").context.drain.begin())
        with browser(keys_for_web, signed) as page:
            with pytest.raises(Refused) as caught:
                page.upload(page.prepare(ANSWERS), 1)
        assert (caught.value.reason, caught.value.retry_after_ms) == ("draining", 5000)
        assert keys_for_web.post("R1", KEYS).status == 200


class Slow:
    """A connection whose request does not end."""

    def __init__(
        self, lab: WebLab, path: str, announced: int | None, body: bytes, kind: str = "proto"
    ) -> None:
        host, _, port = lab.parties["R1"].https.removeprefix("https://").rpartition(":")
        plain = socket.create_connection((host, int(port)), timeout=patience(20))
        self.socket = lab.tls.wrap_socket(plain, server_hostname=host)
        length = "Transfer-Encoding: chunked" if announced is None else f"Content-Length: {announced}"
        head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/{kind}\r\n{length}\r\n\r\n"
        if announced is None:
            body = f"{len(body):x}\r\n".encode() + body + b"\r\n"
        self.socket.sendall(head.encode() + body)

    def answer(self) -> bytes:
        """All it is sent until it is closed."""
        found = b""
        with contextlib.suppress(ConnectionResetError, ssl.SSLError):
            while part := self.socket.recv(65536):
                found += part
        return found

    def close(self) -> None:
        self.socket.close()


def test_unfinished_messages_lose_their_places(keys_for_web: WebLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four places, 0.3 seconds each: of six the two oldest make room, the others end when their time is over."""
    monkeypatch.setattr(
        ports,
        "arrivals_of",
        lambda _config, refusals, _clock, *, public: Arrivals(4, 0.3 if public else 60.0, refusals),
    )
    with alone(keys_for_web, "R1"):
        slow = [Slow(keys_for_web, SUBMIT, 1000, b"begun") for _ in range(6)]
        answers = [connection.answer() for connection in slow]
        reasons = [answer.partition(b"trimask-reason: ")[2].partition(b"\r")[0] for answer in answers]
        assert sorted(reasons) == [b"overloaded"] * 2 + [b"slow_message"] * 4
        counted = keys_for_web.refusals("R1")
        assert (counted["overloaded"], counted["slow_message"]) == (2, 4)
        assert keys_for_web.post("R1", KEYS).status == 200  # and the node is as it was
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("announced", [200_000, None])
def test_too_much_is_not_read(web_lab: WebLab, announced: int | None) -> None:
    """By the length it announces; without one, as soon as there is more than a message may have."""
    body = b"" if announced else bytes(200_000)
    connection = Slow(web_lab, SUBMIT, announced, body)
    answer = connection.answer()
    connection.close()
    assert answer.startswith(b"HTTP/1.1 429")
    assert b"trimask-reason: oversized_message" in answer


@pytest.mark.parametrize("sent", [b"", b"POST /x HTTP/1.1\r\nHost: a\r\nX: "])
def test_a_head_that_never_ends(keys_for_web: WebLab, monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(https_port, "_IDLE_SECONDS", 0.3)
    with alone(keys_for_web, "R1"):
        host, _, port = keys_for_web.parties["R1"].https.removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=patience(20)) as plain:
            with keys_for_web.tls.wrap_socket(plain, server_hostname=host) as secure:
                secure.sendall(sent)
                assert secure.recv(100) == b""  # closed; a timeout would raise


def test_a_head_that_is_too_large(web_lab: WebLab) -> None:
    for headers in ({f"X-{number}": "x" for number in range(60)}, {"X-Long": "x" * 4000}):
        assert web_lab.post("R1", KEYS, headers=headers).status == 400


def test_many_connections(keys_for_web: WebLab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has waited longest makes room."""
    monkeypatch.setattr(https_port, "_MOST_CONNECTIONS", 8)
    with alone(keys_for_web, "R1"):
        host, _, port = keys_for_web.parties["R1"].https.removeprefix("https://").rpartition(":")
        with contextlib.ExitStack() as stack:
            held = []
            for _ in range(12):
                plain = stack.enter_context(socket.create_connection((host, int(port)), timeout=patience(20)))
                held.append(stack.enter_context(keys_for_web.tls.wrap_socket(plain, server_hostname=host)))
            assert keys_for_web.post("R1", KEYS).status == 200
            for connection in held[:4]:
                with contextlib.suppress(ConnectionResetError):
                    assert connection.recv(100) == b""


def test_unfinished_messages_on_every_connection(
    keys_for_web: WebLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers hold all connections with messages that never end: who comes now is served all the same."""
    monkeypatch.setattr(https_port, "_MOST_CONNECTIONS", 6)
    with alone(keys_for_web, "R1"):
        connections = keys_for_web.node("R1").host._https._connections
        slow = []
        for number in range(6):
            slow.append(Slow(keys_for_web, SUBMIT, 1000, b"begun"))
            keys_for_web.until(lambda wanted=number + 1: len(connections.reading) == wanted)
        for _ in range(3):
            assert keys_for_web.post("R1", KEYS).status == 200
        assert keys_for_web.refusals("R1")["overloaded"] >= 1
        assert slow[0].answer() == b""
        for connection in slow:
            connection.close()
        keys_for_web.until(lambda: not connections.places)  # and nothing is kept of those that went
        assert not connections.reading
        assert keys_for_web.post("R1", KEYS).status == 200


# Certificates and settings


def _renew(lab: WebLab, **changes: Any) -> int:
    issued = issue_certificate(
        load_authority(lab.folder / "authority"), "r1.trimask.local", place="127.0.0.1", **changes
    )
    for file, content in (("https.key", issued.private_key), ("https.pem", issued.certificate)):
        (lab.folder / "R1" / file).write_bytes(content)
    return x509.load_pem_x509_certificate(issued.certificate).serial_number


async def _reload(node: Any) -> bool:
    found: bool = node.host.reload_keys()
    return found


def test_a_renewed_certificate_is_taken_over_and_a_bad_one_is_not(keys_for_web: WebLab) -> None:
    lab = keys_for_web
    with alone(lab, "R1"):
        before = lab.served("R1")
        fresh = _renew(lab)
        assert lab.served("R1") == before
        assert lab.on_loop(_reload(lab.node("R1")))
        assert lab.served("R1") == fresh != before
        assert not lab.on_loop(_reload(lab.node("R1")))
        now = dt.datetime.now(dt.UTC)
        _renew(lab, not_before=now - dt.timedelta(days=3), not_after=now - dt.timedelta(days=1))
        assert not lab.on_loop(_reload(lab.node("R1")))
        (lab.folder / "R1" / "https.pem").write_text("renewal failed\n")
        assert not lab.on_loop(_reload(lab.node("R1")))
        assert lab.served("R1") == fresh
        assert lab.refusals("R1")["bad_certificate_file"] == 2


def test_without_its_own_files_it_shows_the_nodes_certificate(keys_for_web: WebLab) -> None:
    for file in ("https.pem", "https.key"):
        (keys_for_web.folder / "R1" / file).unlink()
    with alone(keys_for_web, "R1"):
        context = tls(keys_for_web.owner / "ca.pem")
        host, _, port = keys_for_web.parties["R1"].https.removeprefix("https://").rpartition(":")
        with socket.create_connection((host, int(port)), timeout=patience(10)) as plain:
            with context.wrap_socket(plain, server_hostname="r1.trimask.local") as secure:
                assert secure.version() in ("TLSv1.2", "TLSv1.3")


def test_files_that_do_not_fit_stop_the_start(keys_for_web: WebLab) -> None:
    (keys_for_web.folder / "R1" / "https.key").write_bytes(
        (keys_for_web.folder / "R2" / "https.key").read_bytes()
    )
    with pytest.raises(ConfigError, match=r"https\.key does not belong"):
        with alone(keys_for_web, "R1"):
            pass


def test_a_left_provider_has_no_such_port(tmp_path: Path) -> None:
    given = {
        "name": "L1",
        "data": "d",
        "keys": "k",
        "peer_listen": "127.0.0.1:0",
        "https_listen": "127.0.0.1:0",
    }
    with pytest.raises(ConfigError, match="serves no browsers"):
        read_config(given, tmp_path, "left")


def test_ports_are_counted_and_measured(web_lab: WebLab, signed: SignedStudy) -> None:
    node = web_lab.node("R1")
    found = web_lab.on_loop(node.host.readiness())
    assert found.checks["ports"] == (True, "3 of 3 ports listen")

    def count() -> float:
        return float(
            node.context.metrics.requests.labels("SubmissionService/GetSealingKeys", "OK")._value.get()
        )

    before = count()
    web_lab.post("R1", KEYS)
    assert count() == before + 1


@pytest.mark.slow
def test_two_workers_of_every_node_on_postgresql(tmp_path: Path, postgres_server: LocalPostgres) -> None:
    """Each connection comes to either worker of a node; what one has taken the other knows, and all of it is published."""
    lab = WebLab(tmp_path)
    lab.use_postgres(postgres_server)
    people = some_people(48, seed=5)
    with ThreadCluster(lab.folder, 2) as lab.cluster:
        signed = lab.open_web()
        gone = None
        for person in [*people, people[0]]:
            with browser(lab, signed) as page:
                submission = page.prepare(person)
                receipt = page.send(submission)
                assert [page.send(submission) for _ in range(3)] == [
                    receipt
                ] * 3  # by other connections: the same receipt
                gone = submission
        with browser(lab, signed) as page:
            assert gone is not None
            for provider in (1, 2):
                page.withdraw(gone.withdrawal_key, provider)
            for _ in range(8):
                with pytest.raises(Refused, match="withdrawn"):
                    page.send(gone)
        for name in ("R1", "R2"):
            taken = [
                node.context.metrics.requests.labels("SubmissionService/Submit", "OK")._value.get()
                for node in lab.nodes(name)
            ]
            assert len(taken) == 2
            assert min(taken) > 0, taken
            assert sum(taken) == 4 * 49
        assert lab.close(signed.study).published_rows == 48
        (dataset,) = lab.datasets(signed.study)
        exact = exact_gram(signed.study, people)
        assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-7 * np.abs(exact).max()

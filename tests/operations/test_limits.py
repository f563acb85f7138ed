"""What a node takes on, what it refuses before it costs anything, and slow clients that hold nobody up."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
import ssl
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from trimask_client import Client, Gateway
from trimask_client.grpc_channel import open_channel
from trimask_client.queue import Queue
from trimask_client.transport import H2Transport, read_retry
from trimask_core.basics.clock import ManualClock
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.basics.refusals import Reason
from trimask_grpcio import GrpcioTransport
from trimask_patience import patience
from trimask_server.access.governance import refuse_size
from trimask_server.local.cluster import ThreadCluster
from trimask_server.right.rows import RowStore
from trimask_server.runtime import inbound_limits
from trimask_server.runtime.inbound_limits import Addresses, Arrivals, Shares, TokenBuckets, message_limit
from trimask_server.runtime.metrics import Refusals
from trimask_server.settings.config import NodeConfig

ANSWERS = {"hours": 7.5, "rested": True}
CONFIG = NodeConfig("R1", Path("data"), Path("keys"), "127.0.0.1:0")


def test_a_bucket_fills_with_time() -> None:
    clock = ManualClock(0)
    buckets = TokenBuckets(2.0, 3, clock.now_ms)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 500]
    assert buckets.take("b") == 0  # another address has its own
    clock.advance(0.5)
    assert [buckets.take("a"), buckets.take("a")] == [0, 500]
    clock.advance(3600)
    assert [buckets.take("a") for _ in range(4)] == [0, 0, 0, 500]
    assert [TokenBuckets(0.0, 3, clock.now_ms).take("a") for _ in range(9)] == [0] * 9


def test_buckets_do_not_grow_without_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(inbound_limits, "_ADDRESSES", 10)
    buckets = TokenBuckets(1.0, 1, ManualClock(0).now_ms)
    for number in range(50):
        buckets.take(str(number))
    assert len(buckets._buckets) == 10


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.7:51234", "192.0.2.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:51234", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::1]:1", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:1", "192.0.2.7"),
        ("unix:", ""),
    ],
)
def test_whose_bucket(peer: str, address: str) -> None:
    assert Addresses().of(peer) == address


def test_a_proxy_tells_nobody_apart() -> None:
    addresses = Addresses(["192.0.2.7", "2001:db8::/32"])
    assert addresses.of("ipv4:192.0.2.7:1") is None
    assert addresses.of("ipv6:%5B::ffff:192.0.2.7%5D:1") is None
    assert addresses.of("ipv6:[2001:db8:1::9]:1") is None
    assert addresses.of("ipv4:192.0.2.8:1") == "192.0.2.8"


def test_places_are_shared_out_by_address() -> None:
    places: Shares[str] = Shares(4)
    # While there is room, one address may have all of it.
    assert [places.enter(name, "clinic") for name in ("c1", "c2", "c3", "c4")] == [None] * 4
    assert places.enter("c5", "clinic") == "c1"  # its own oldest makes room for its own newest
    assert places.enter("a", "alice") == "c2"
    assert places.enter("b", "bob") == "c3"
    assert places.enter("c6", "clinic") == "c4"  # and takes nothing from those who hold less
    places.renew("c5")
    assert places.enter("c7", "clinic") == "c6"
    # Through a proxy each is alone, so it is one of many that hold one.
    assert places.enter("p1", None) == "c5"
    assert places.enter("p2", None) == "a"  # all hold one: the oldest
    places.renew("b", firm=True)
    assert places.enter("p3", None) == "c7"
    for name in ("b", "p1", "p2", "p3", "p3"):
        places.leave(name)
    assert not places
    assert not places._held

    places = Shares(2)
    places.enter("x1", "x")
    places.enter("x2", "x")
    for name in ("x1", "x2"):
        places.renew(name, firm=True)
    assert places.enter("x3", "x") == "x3"  # all its others are being answered
    assert places.enter("y", "y") == "x1"


def test_every_rpc_has_a_limit_below_what_grpc_would_buffer() -> None:
    from google.protobuf import descriptor_pool

    from trimask_proto.v1 import left_masking_pb2, study_pb2, submission_pb2  # noqa: F401 - so that they are known

    pool = descriptor_pool.Default()
    for name, public in (("SubmissionService", True), ("LeftMaskingService", False), ("StudyService", True)):
        whole = dict(inbound_limits.server_options(CONFIG, public=public))["grpc.max_receive_message_length"]
        for method in pool.FindServiceByName(f"trimask_proto.v1.{name}").methods:
            assert 0 < message_limit(f"/x/{method.name}", CONFIG, public=public) < whole
    sizes = [
        message_limit(f"/x/{name}", CONFIG, public=False)
        for name in ("GetNodeInfo", "OpenStudy", "PushMasked")
    ]
    assert sizes == sorted(set(sizes))
    larger = dataclasses.replace(CONFIG, max_submission_bytes=1 << 20)
    assert message_limit("/x/Submit", larger, public=True) == 1 << 20


def test_a_study_whose_submissions_would_not_fit_is_not_taken(ops_lab: Any) -> None:
    study = ops_lab.open_study().study
    for role, limit in (("R1", 131_072), ("L1", 0), ("collector", 0)):
        refuse_size(study, role, limit)
    with pytest.raises(Refused, match="its operator sets max_submission_bytes") as caught:
        refuse_size(study, "R1", 4096)
    assert caught.value.reason is Reason.STUDY_TOO_LARGE


def test_what_is_too_large_or_no_message_is_never_parsed(ops_lab: Any) -> None:
    party, refused = ops_lab.parties["collector"], ops_lab.node("collector").context.refusals.as_dict
    with open_channel(party.address, ops_lab.folder / "owner" / "ca.pem", party.tls_name) as channel:
        call: Any = channel.unary_unary("/trimask_proto.v1.StudyService/GetStudyStatus")
        for data, reason, code in (
            (bytes(140_000), "oversized_message", grpc.StatusCode.RESOURCE_EXHAUSTED),
            (b"\xff" * 20, "malformed", grpc.StatusCode.INVALID_ARGUMENT),
        ):
            before = refused().get(reason, 0)
            with pytest.raises(grpc.RpcError) as caught:
                call(data, timeout=patience(10))
            assert caught.value.code() is code
            assert refused()[reason] == before + 1


@pytest.fixture
def tight_lab(keys_only: Any) -> Any:
    """R1 takes two submissions at once; R2 three calls from an address, then one in ten seconds."""
    for name, lines in (
        ("R1", "max_concurrent_submissions = 2\n"),
        ("R2", "rate_limit_per_second = 0.1\nrate_limit_burst = 3\n"),
    ):
        path = keys_only.folder / name / "node.toml"
        path.write_text(path.read_text().replace("rate_limit_per_second = 0 ", "#") + lines)
    with ThreadCluster(keys_only.folder) as keys_only.cluster:
        yield keys_only


@pytest.mark.parametrize("transport", [GrpcioTransport, H2Transport])
def test_too_many_calls_from_an_address(tight_lab: Any, transport: Any, tmp_path: Any) -> None:
    signed = tight_lab.open_study()
    slept: list[float] = []
    with Client(signed, attempts=2, transport=transport(), sleep=slept.append) as client:
        submissions = [client.prepare(ANSWERS) for _ in range(4)]
        for submission in submissions[:3]:
            client.upload(submission, 2)
        with pytest.raises(Refused, match="slow down") as caught:
            client.upload(submissions[3], 2)
        assert caught.value.reason == "rate_limited"
        assert 1000 < (caught.value.retry_after_ms or 0) <= 10_000
        with pytest.raises(Refused, match="slow down"):
            client.send(submissions[3])
        (pause,) = slept  # one repeat, after what was asked for
        assert 1 < pause < 11
    clock = ManualClock(10**12)
    queue = Queue(
        tmp_path / "queue", bytes(32), clock=clock, transport=transport(), source=DeterministicRandom("q")
    )
    queue.join(signed)
    queue.seal(signed.study.id, ANSWERS)
    (entry,) = queue.send()
    assert entry.state == "waiting"
    assert entry.received_by == ("R1",)
    assert (entry.next_ms or 0) > clock.now_ms() + 1000
    queue.close()


def test_the_queue_never_comes_sooner_than_asked(tight_lab: Any, tmp_path: Any, monkeypatch: Any) -> None:
    signed = tight_lab.open_study()
    clock = ManualClock(10**12)

    class Busy:
        def call(self, *_: Any) -> bytes:
            raise Refused(Reason.OVERLOADED, "full", retry_after_ms=3_600_000)

        def close(self) -> None:
            pass

    queue = Queue(tmp_path / "queue", bytes(32), clock=clock, transport=Busy())
    queue.join(signed)
    queue.seal(signed.study.id, ANSWERS)
    (entry,) = queue.send()
    assert entry.next_ms == clock.now_ms() + 3_600_000  # not after 15 seconds, as it would have been


def test_too_many_submissions_at_once(tight_lab: Any, monkeypatch: Any) -> None:
    signed = tight_lab.open_study()
    node = tight_lab.node("R1")
    gate, arrived = asyncio.Event(), threading.Semaphore(0)
    insert = RowStore.insert

    async def held(*arguments: Any) -> Any:
        arrived.release()
        await gate.wait()
        return await insert(*arguments)

    monkeypatch.setattr(RowStore, "insert", held)
    # grpcio: the default transport makes one call at a time to a provider.
    with Client(signed, attempts=1, transport=GrpcioTransport()) as client:
        submissions = [client.prepare(ANSWERS) for _ in range(3)]
        kept: list[Any] = []
        threads = [
            threading.Thread(target=lambda s=submission: kept.append(client.upload(s, 1)))
            for submission in submissions[:2]
        ]
        for thread in threads:
            thread.start()
            assert arrived.acquire(timeout=patience(30))
        with pytest.raises(Refused, match="as many submissions under way") as caught:
            client.upload(submissions[2], 1)
        assert (caught.value.reason, caught.value.retry_after_ms) == ("overloaded", 1000)

        async def let_go() -> None:
            gate.set()

        tight_lab.on_loop(let_go())
        for thread in threads:
            thread.join(patience(30))
        assert len(kept) == 2  # those under way were answered
        client.upload(submissions[2], 1)  # and there is room again
    assert node.context.refusals.as_dict()["overloaded"] == 1


@pytest.mark.parametrize("value", [None, "", "-5", "1e3", "many", b"\xff", "9" * 30, "١"])
def test_a_wish_that_is_none(value: Any) -> None:
    assert read_retry(value) is None


def test_a_wish_has_a_limit() -> None:
    assert read_retry(b"1500") == 1500
    assert read_retry("99999999999") == 6 * 3600 * 1000


def test_slow_and_idle_clients_hold_nobody_up(keys_only: Any, monkeypatch: Any) -> None:
    """Connections that say nothing, that stop in the handshake, and that never finish their request."""
    monkeypatch.setattr(inbound_limits, "HANDSHAKE_MS", 1500)
    party = keys_only.parties["R1"]
    host, _, port = party.address.rpartition(":")
    context = ssl.create_default_context(cafile=keys_only.folder / "owner" / "ca.pem")
    context.set_alpn_protocols(["h2"])
    with contextlib.ExitStack() as stack:
        stack.enter_context(ThreadCluster(keys_only.folder))
        signed = keys_only.open_study()

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection((host, int(port)), timeout=patience(20)))

        silent = [connect() for _ in range(100)]
        begun = [connect() for _ in range(50)]
        for connection in begun:
            connection.sendall(b"\x16\x03\x01\x02\x00\x01")  # a ClientHello that never comes
        slow = []
        for _ in range(20):
            secure = stack.enter_context(context.wrap_socket(connect(), server_hostname=party.tls_name))
            secure.sendall(
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00"
            )
            slow.append(secure)
        with Client(signed, attempts=1, timeout_seconds=20) as client:
            for _ in range(5):
                client.submit(ANSWERS)
        # Who did not finish the handshake is cut off; a timeout here would raise.
        for connection in silent + begun:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4096):
                    pass


def test_limits_of_connections() -> None:
    public, peer = (
        dict(inbound_limits.server_options(CONFIG, public=True)),
        dict(inbound_limits.server_options(CONFIG, public=False)),
    )
    assert public["grpc.max_connection_idle_ms"] == 300_000
    assert public["grpc.max_connection_age_ms"] == 900_000
    assert "grpc.max_connection_age_ms" not in peer  # a try's messages should not meet a closing connection
    assert public["grpc.max_concurrent_streams"] == 256


def test_a_message_of_many_costs_its_address_what_they_cost_alone(tight_lab: Any) -> None:
    """Three calls are there, and one comes in ten seconds: four submissions in a message leave a debt of one."""
    signed = tight_lab.open_study()
    with Gateway(signed, attempts=1) as gateway, Client(signed, attempts=1) as client:
        made = [client.prepare(ANSWERS) for _ in range(4)]
        requests = {place: client.submit_request(one, 2) for place, one in enumerate(made)}
        assert len(gateway._deliver(2, requests)) == 4
        with pytest.raises(Refused, match="slow down") as caught:
            client.upload(client.prepare(ANSWERS), 2)
        assert 10_000 < (caught.value.retry_after_ms or 0) <= 20_000


def test_a_stream_is_slowed_where_a_call_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    now, waits, answers = [0], list[float](), list[Any]()
    messages = [SimpleNamespace(submissions=[None] * 5) for _ in range(3)]

    async def course() -> None:
        buckets = TokenBuckets(10, 2, lambda: now[0])
        arrivals = Arrivals(4, 60, Refusals({}), buckets)

        async def sleep(seconds: float) -> None:
            assert len(arrivals._places) == 1, "who waits to be read has a place, and can lose it"
            waits.append(seconds)
            now[0] += round(seconds * 1000)

        async def read() -> Any:
            return messages.pop(0) if messages else grpc.aio.EOF

        async def write(answer: Any) -> None:
            answers.append(answer)

        async def whole(message: Any, _: Any) -> Any:
            return len(message.submissions)

        monkeypatch.setattr("trimask_server.runtime.inbound_limits.asyncio.sleep", sleep)
        context: Any = type("Call", (), {"peer": lambda _: "ipv4:203.0.113.7:4711"})()
        context.read, context.write = read, write
        await arrivals.wrap_stream("m", grpc.unary_unary_rpc_method_handler(whole)).stream_stream(
            None, context
        )
        assert len(arrivals._places) == 0

    asyncio.run(course())
    # Of two the first message takes five: -3, so four tenths of a second until there is one again; then -4, and a half.
    assert (answers, waits) == ([5, 5, 5], [0.4, 0.5])

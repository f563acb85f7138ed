"""Taking submissions in: a right provider against a bare gRPC server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.cluster import Live, echo_server, live_cluster, tree_usage
from bench.example import answers
from bench.load import Target, Timing, drive
from bench.results import Result, Settings, share_of_limit
from trimask_client import Client
from trimask_core.crypto.keys import VECTOR, component_info, seal
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_core.suites import payloads_of
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse

__all__ = ["components", "submit"]

_ROWS = 256
_UNDER_WAY = 128  # enough callers for a commit to be full


def components(signed: SignedStudy, count: int) -> list[bytes]:
    """Messages for the last right provider that it will accept: one vector sealed again under fresh ids, quicker than
    new people."""
    study, last = signed.verify(), len(signed.study.right)
    with Client(signed) as client:
        vector = len(client.prepare(answers(np.random.default_rng(0))).sealed[-1])
    form = payloads_of(study).form_of(study, last)
    plain = VECTOR + np.ones(form.values, dtype="<i8").tobytes() + bytes(form.more)
    public = study.right[last - 1].sealing
    messages = []
    for _ in range(count):
        submission_id = np.random.default_rng().bytes(SUBMISSION_ID_BYTES)
        sealed = seal(public, plain, component_info(study.binding, last, submission_id))
        if len(sealed) != vector:
            raise AssertionError("what is timed must have the size of what devices send")
        messages.append(
            SubmitRequest(
                study_id=study.id, submission_id=submission_id, sealed_component=sealed
            ).SerializeToString()
        )
    return messages


@dataclass(frozen=True)
class _Turn:
    """One turn of one server: many calls under way, then one at a time."""

    many: Timing
    cpu_us: float
    one: Timing


def _turn(target: Target, messages: Sequence[bytes], single: int, marker: str) -> _Turn:
    before = tree_usage(marker).seconds
    many = drive(target, messages[single:], _UNDER_WAY)
    cpu = 1e6 * (tree_usage(marker).seconds - before) / len(messages[single:])
    return _Turn(many, cpu, drive(target, messages[:single], 1))


def submit(settings: Settings, suite: str = "rows") -> Iterator[Result]:
    """Submissions over TLS gRPC to the last right provider, answered after the commit, by turns with an echo of the same
    bytes."""
    rounds, calls, single = (2, 384, 50) if settings.quick else (6, 1280, 200)
    with live_cluster(suite) as live:
        signed = live.open(_ROWS, _ROWS)
        messages = components(signed, rounds * (calls + single))
        answer = SubmitResponse(receive_time_ms=1 << 40, signature=bytes(64)).ByteSize()
        with echo_server(live, answer):
            yield from _compare(live, signed, messages, rounds, single)


def _compare(
    live: Live, signed: SignedStudy, messages: list[bytes], rounds: int, single: int
) -> Iterator[Result]:
    last = f"R{live.right}"
    right_keys = live.folder / last
    right, echo = [], []
    each = len(messages) // rounds
    for first in range(0, rounds * each, each):
        batch = messages[first : first + each]
        target = live.target(signed.study, last)
        right.append(_turn(target, batch, single, str(right_keys / "node.toml")))
        echo.append(_turn(live.echo_target(), batch, single, f"{right_keys}\0"))
    echo_rate = max(turn.many.per_second for turn in echo)
    rate = max(turn.many.per_second for turn in right)
    yield Result(
        "submit", f"submissions, {_UNDER_WAY} under way", "speed", rate, echo_rate, "/s",
        "a bare gRPC echo over TLS, same bytes", rate / echo_rate, 0.5,
    )  # fmt: skip
    cpu, echo_cpu = (min(turn.cpu_us for turn in turns) for turns in (right, echo))
    if echo_cpu > 0:  # there is a /proc
        yield share_of_limit(
            "submit",
            "provider's CPU a submission",
            cpu / 1e6,
            echo_cpu / 1e6,
            "echo server's CPU a call",
        )
    for name, mine, theirs in (
        ("p50, one under way", [t.one.p50_ms for t in right], [t.one.p50_ms for t in echo]),
        ("p99, one under way", [t.one.p99_ms for t in right], [t.one.p99_ms for t in echo]),
        (f"p50, {_UNDER_WAY} under way", [t.many.p50_ms for t in right], [t.many.p50_ms for t in echo]),
        (f"p99, {_UNDER_WAY} under way", [t.many.p99_ms for t in right], [t.many.p99_ms for t in echo]),
    ):
        yield share_of_limit("submit", name, min(mine) / 1e3, min(theirs) / 1e3, "the echo's")

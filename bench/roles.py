"""What one person costs every node, in both suites with the defaults, and what the way in costs: processor time.

A node is its process and every process it started (`cluster.tree_usage`). People are sent to every right provider, the study
is closed and its dataset published; what every node spent in between, checking with it, is divided by the people: with a
call for each person on one gRPC connection a provider, and together by SubmitMany. Then the last right provider takes
submissions in, without checking them, in other ways: a connection each, as phones come, and HTTPS, as browsers do. Its own
share of a handshake is what these have more than an open connection.

The limit of each is the processor time of a bare gRPC server over TLS for one call with as many bytes, in the same run: what
a busy machine does to processor time it does to both, so ratios can be compared between runs.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from bench.cluster import SUBMIT, Live, echo_server, live_cluster, tree_usage
from bench.device import request_bytes
from bench.load import drive, many
from bench.results import Result, Settings, share_of_budget
from bench.submitting import components
from trimask_client import SealedSubmission
from trimask_core.study.definition import Study
from trimask_proto.v1.submission_pb2 import SubmitResponse

__all__ = ["ALONE", "BYTES", "CALLS", "TOGETHER", "roles"]

CALLS, TOGETHER, ALONE = "a call a person", "SubmitMany", "taken in alone by the last right provider"
BYTES = "bytes sent a person"
_BLOCK = 256
_WANTED_US = {"moments": 600.0, "rows": 8000.0}
"""Asked for: of the busiest provider of the moments suite; of all nodes of the rows suite. One call a person."""
_THREADS, _WARM = 8, 32
_ECHO = "a bare gRPC call over TLS"


def roles(settings: Settings) -> Iterator[Result]:
    """By node, then by way in."""
    for suite, people in (("moments", settings.repeats(4096, 512)), ("rows", settings.repeats(1024, 256))):
        with live_cluster(suite, https=True) as live:
            _study(live, _BLOCK, live.upload)  # the first study pays for connections and first use
            limit = _bare_call(live, settings.repeats(4096, 512))
            for way, upload in ((CALLS, live.upload), (TOGETHER, _together(live))):
                yield from _by_node(live, way, _study(live, people, upload), limit)
            yield from _by_way(live, settings.repeats(1024, 256), limit)


def _result(
    live: Live, row: str, value: float, limit: float, *, unit: str = "us CPU", against: str = _ECHO
) -> Result:
    detail = {"row": row, "column": f"`{live.suite}`, {live.right} + {live.left}"}
    name = f"{live.suite}: {row}"
    return Result("a person", name, "budget", value, limit, unit, against, value / limit, detail=detail)


def _bare_call(live: Live, calls: int) -> float:
    """Microseconds of the bare server's processors for a call of a submission's size."""
    signed = live.open(_BLOCK, _BLOCK)
    (message,) = components(signed, 1)
    answer = SubmitResponse(receive_time_ms=1 << 40, signature=bytes(64)).ByteSize()
    with echo_server(live, answer):
        marker = f"{live.folder / f'R{live.right}'}\0"
        drive(live.echo_target(), [message] * _WARM, _THREADS)
        before = tree_usage(marker).seconds
        drive(live.echo_target(), [message] * calls, _THREADS)
        return 1e6 * (tree_usage(marker).seconds - before) / calls


Upload = Callable[[Study, list[SealedSubmission]], None]


def _together(live: Live) -> Upload:
    def upload(study: Study, submissions: list[SealedSubmission]) -> None:
        columns = zip(*(request_bytes(submission) for submission in submissions), strict=True)
        for k, requests in enumerate(columns, 1):
            many(live.target(study, f"R{k}"), study.id, requests)

    return upload


def _study(live: Live, people: int, upload: Upload) -> dict[str, float]:
    """Microseconds of each node a person, from the first report to the release; and the bytes of a person's messages."""
    signed = live.open(_BLOCK, people)
    made = live.prepare(signed, people)
    before = {name: tree_usage(marker).seconds for name, marker in live.markers.items()}
    upload(signed.study, made)
    live.close_and_wait(signed.study, poll_seconds=2.0)
    spent = {
        name: 1e6 * (tree_usage(marker).seconds - before[name]) / people
        for name, marker in live.markers.items()
    }
    return spent | {BYTES: float(sum(map(len, request_bytes(made[0]))))}


def _by_node(live: Live, way: str, spent: dict[str, float], limit: float) -> Iterator[Result]:
    size = spent.pop(BYTES)
    if way == CALLS:
        yield _result(live, BYTES, size, size, unit="bytes", against="itself")
    total = sum(spent.values())
    busiest = max((name for name in spent if name.startswith("R")), key=lambda one: spent[one])
    yield _result(live, f"{way}: all nodes", total, limit)
    yield _result(live, f"{way}: the busiest right provider", spent[busiest], limit)
    yield _result(live, f"{way}: the collector", spent["collector"], limit)
    if live.left:
        left = sum(value for name, value in spent.items() if name.startswith("L"))
        yield _result(live, f"{way}: the left providers together", left, limit)
    if way == CALLS:
        what, value = ("all nodes", total) if live.suite == "rows" else ("busiest provider", spent[busiest])
        name = f"{live.suite}, {live.right} + {live.left}, 20 attributes, a call a person: {what}"
        yield share_of_budget("cost", name, value, _WANTED_US[live.suite], "us CPU", "wanted", nodes=spent)


def _by_way(live: Live, calls: int, limit: float) -> Iterator[Result]:
    signed = live.open(_BLOCK, 5 * (calls + _WARM))
    study, last = signed.study, f"R{live.right}"
    ways: dict[str, Callable[[Sequence[bytes]], object]] = {
        "one gRPC connection": lambda messages: drive(live.target(study, last), messages, _THREADS),
        "SubmitMany": lambda messages: many(live.target(study, last), study.id, messages),
        "a gRPC connection each": lambda messages: [
            drive(live.target(study, last), [one], 1) for one in messages
        ],
        "HTTPS, kept open": lambda messages: _https(live, study, last, messages, each=False),
        "HTTPS, a connection each": lambda messages: _https(live, study, last, messages, each=True),
    }
    for way, send in ways.items():
        sent = calls // 4 if "each" in way else calls
        messages = components(signed, sent + _WARM)
        send(messages[sent:])
        start = tree_usage(live.markers[last]).seconds
        send(messages[:sent])
        spent = 1e6 * (tree_usage(live.markers[last]).seconds - start) / sent
        yield _result(live, f"{ALONE}: {way}", spent, limit)


def _https(live: Live, study: Study, role: str, messages: Sequence[bytes], *, each: bool) -> None:
    """Connect's unary calls, as the page makes them."""
    place = urlsplit(study.party(role).https)
    trusted = ssl.create_default_context(cadata=live.roots)
    headers = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1"}

    def send(part: Sequence[bytes]) -> None:
        channel: http.client.HTTPSConnection | None = None
        for message in part:
            if channel is None or each:
                channel = http.client.HTTPSConnection(
                    str(place.hostname), place.port, timeout=60, context=trusted
                )
            channel.request("POST", SUBMIT, message, headers)
            answer = channel.getresponse()
            if answer.status != 200:
                raise AssertionError(f"not taken: {answer.status} {answer.read()[:200]!r}")
            answer.read()
            if each:
                channel.close()
        if channel is not None:
            channel.close()

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(send, [messages[start::_THREADS] for start in range(_THREADS)]))

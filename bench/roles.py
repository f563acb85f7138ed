"""What one person costs every node, in both suites with the defaults, and what the way in costs: processor time.

A node is its process and every process it started (`cluster.tree_usage`). People are sent over one gRPC connection a
provider, the study is closed and its dataset published; what every node spent in between is divided by the people. Then the
last right provider takes submissions in other ways: a connection each, as phones come, HTTPS, as browsers do, and
SubmitMany. Its own share of a handshake is what the first has more than the shared connection.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from bench.cluster import SUBMIT, Live, live_cluster, tree_usage
from bench.load import drive, many
from bench.results import Result, Settings, share_of_budget
from bench.submitting import components
from trimask_core.study.definition import Study

__all__ = ["roles"]

_BLOCK = 256
_WANTED_US = {"moments": 600.0, "rows": 8000.0}
"""Asked for: of the busiest provider of the moments suite; of all nodes of the rows suite."""
_THREADS, _WARM = 8, 32


def roles(settings: Settings) -> Iterator[Result]:
    """By node, then by way in."""
    for suite, people in (("moments", settings.repeats(4096, 512)), ("rows", settings.repeats(1024, 256))):
        with live_cluster(suite, https=True) as live:
            _study(live, 256)  # the first study pays for connections and first use
            spent = _study(live, people)
            yield from _by_node(live, spent)
            yield from _by_way(live, settings.repeats(512, 64))


def _study(live: Live, people: int) -> dict[str, float]:
    """Microseconds of each node a person, from the first report to the release."""
    signed = live.open(_BLOCK, people)
    made = live.prepare(signed, people)
    before = {name: tree_usage(marker).seconds for name, marker in live.markers.items()}
    live.upload(signed.study, made)
    live.close_and_wait(signed.study, poll_seconds=2.0)
    return {
        name: 1e6 * (tree_usage(marker).seconds - before[name]) / people
        for name, marker in live.markers.items()
    }


def _by_node(live: Live, spent: dict[str, float]) -> Iterator[Result]:
    total, (right, left) = sum(spent.values()), (live.right, live.left)
    name = (
        f"{live.suite}, {right} + {left}, 20 attributes"
        if left
        else f"{live.suite}, {right} providers, 20 attributes"
    )
    busiest = max(spent, key=lambda one: spent[one])
    what, value = (
        ("all nodes", total) if live.suite == "rows" else (f"busiest provider, {busiest}", spent[busiest])
    )
    yield share_of_budget("a person", f"{name}: {what}", value, _WANTED_US[live.suite], "us CPU", "wanted")
    for node, each in spent.items():
        yield Result(
            "a person", f"{name}: {node}", "budget", each, total, "us CPU", "all nodes together", each / total
        )


def _by_way(live: Live, calls: int) -> Iterator[Result]:
    signed = live.open(_BLOCK, 5 * (calls + _WARM))
    study, last = signed.study, f"R{live.right}"
    ways: dict[str, Callable[[Sequence[bytes]], object]] = {
        "one gRPC connection": lambda messages: drive(live.target(study, last), messages, _THREADS),
        "one gRPC connection, SubmitMany": lambda messages: many(
            live.target(study, last), study.id, messages
        ),
        "a gRPC connection each": lambda messages: [
            drive(live.target(study, last), [one], 1) for one in messages
        ],
        "HTTPS, kept open": lambda messages: _https(live, study, last, messages, each=False),
        "HTTPS, a connection each": lambda messages: _https(live, study, last, messages, each=True),
    }
    first = 0.0
    for way, send in ways.items():
        messages = components(signed, calls + _WARM)
        send(messages[calls:])
        start = tree_usage(live.markers[last]).seconds
        send(messages[:calls])
        spent = 1e6 * (tree_usage(live.markers[last]).seconds - start) / calls
        first = first or spent
        yield Result(
            "a person", f"{live.suite}, taken in by {last}: {way}", "budget", spent, first, "us CPU",
            "one gRPC connection", spent / first,
        )  # fmt: skip


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

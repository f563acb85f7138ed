"""Taking many people in: SubmitMany beside a call each, at the last right provider, in both suites.

People a second and the provider's processor time, by turns over the same kind of bytes. Calls come in
three ways: one after the other on an open connection, as a backend's loop makes them; many under way on one connection,
which no client of ours does; and each on a connection of its own, as people's devices come.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from bench.cluster import Live, live_cluster, tree_usage
from bench.load import drive, many
from bench.results import Result, Settings
from trimask_core.study.definition import Study
from trimask_proto.v1.submission_pb2 import SubmitRequest

__all__ = ["together"]

_BLOCK, _UNDER_WAY = 256, 128
_WANTED = 4.0


def together(settings: Settings) -> Iterator[Result]:
    """Each way's best of its turns."""
    turns, people = (2, 512) if settings.quick else (3, 2048)
    for suite in ("moments", "rows"):
        with live_cluster(suite) as live:
            found = _measured(live, turns, people)
        together_rate, together_cpu = found.pop("SubmitMany")
        for way, (rate, cpu) in found.items():
            wanted = _WANTED if way == "one after the other" else None
            yield Result(
                "people together", f"{suite}, people a second beside calls {way}", "speed", together_rate, rate, "/s",
                f"calls {way}", together_rate / rate, wanted,
            )  # fmt: skip
            yield Result(
                "people together", f"{suite}, provider's CPU a person beside calls {way}", "speed", together_cpu, cpu,
                "us CPU", f"calls {way}", cpu / together_cpu,
            )  # fmt: skip


def _measured(live: Live, turns: int, people: int) -> dict[str, tuple[float, float]]:
    """By way: people a second, and microseconds of the provider's processors each; the best of the turns."""
    last = f"R{live.right}"
    ways: dict[str, Callable[[Study, Sequence[bytes]], object]] = {
        "one after the other": lambda study, messages: drive(live.target(study, last), messages, 1),
        f"{_UNDER_WAY} under way": lambda study, messages: drive(
            live.target(study, last), messages, _UNDER_WAY
        ),
        "on a connection each": lambda study, messages: [
            drive(live.target(study, last), [one], 1) for one in messages[: len(messages) // 4]
        ],
        "SubmitMany": lambda study, messages: many(live.target(study, last), study.id, messages),
    }
    found = dict.fromkeys(ways, (0.0, float("inf")))
    for turn in range(turns + 1):
        for way, send in ways.items():
            signed = live.open(_BLOCK, people)
            messages = [
                SubmitRequest(
                    study_id=one.study_id, submission_id=one.submission_id, sealed_component=one.sealed[-1]
                ).SerializeToString()
                for one in live.prepare(signed, people if turn else 128)
            ]
            spent, start = tree_usage(live.markers[last]).seconds, time.perf_counter()
            send(signed.study, messages)
            seconds, spent = time.perf_counter() - start, tree_usage(live.markers[last]).seconds - spent
            sent = len(messages) // 4 if "each" in way else len(messages)
            if turn:  # the first pays for connections and first use
                rate, cpu = found[way]
                found[way] = (max(rate, sent / seconds), min(cpu, 1e6 * spent / sent))
    return found

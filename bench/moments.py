"""The moments suite: what a report costs a device and a provider, beside opening its seal and a bare echo."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.resources import files

import numpy as np

from bench.example import ATTRIBUTES, answers
from bench.results import Result, Settings, share_of_budget
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SEAL_OVERHEAD_BYTES, SEALINGS, SealingKey, seal
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import build_report, challenge_key, share_payloads, split
from trimask_core.study.schema import Attribute, Schema
from trimask_server.suites.moments.batch_check import (
    BatchChecker,
    FormValues,
    read_shares,
    sum_accepted,
    verdicts,
)
from trimask_theory.planning.study_definition import load_definition

__all__ = ["layout_of_twenty", "moments"]

_STUDY = bytes(32)
_DEVICE_MS = 200.0
_CHECK_SHARE = 1.5
_UPLOAD_SURVEY, _UPLOAD_TWENTY = 2500, 5000


def layout_of_twenty() -> MomentsLayout:
    """The benchmarks' study: 12 continuous columns of a thousand steps, 4 of a hundred, 4 yes or no."""
    kinds = ["continuous"] * 12 + ["integer"] * 4 + ["binary"] * 4
    return MomentsLayout.of(
        Schema(
            tuple(
                Attribute(f"a{i}", kind, *(() if kind == "binary" else (0.0, 100.0)))  # type: ignore[arg-type]
                for i, kind in enumerate(kinds)
            )
        )
    )


def moments(settings: Settings) -> Iterator[Result]:
    """Device, upload and provider at 20 columns."""
    layout, source = layout_of_twenty(), SystemRandom()
    if layout.q != ATTRIBUTES:
        raise AssertionError("the study measured has 20 columns")
    people = [answers(np.random.default_rng(i)) for i in range(64)]
    yield from _device(layout, people, settings)
    text = (files("trimask_cli") / "data" / "sleep-and-wellbeing.toml").read_text(encoding="utf-8")
    survey = MomentsLayout.of(load_definition(text).schema)
    for name, of, budget in (
        ("the app's survey", survey, _UPLOAD_SURVEY),
        ("20 columns", layout, _UPLOAD_TWENTY),
    ):
        yield share_of_budget(
            "moments", f"upload, {name}, two providers", _upload(of, 2), budget, "bytes", "the issue's limit",
            elements=of.elements, bits=of.bits,
        )  # fmt: skip
    yield from _provider(layout, [build_report(layout, person, source) for person in people], settings)


def _upload(layout: MomentsLayout, providers: int) -> int:
    """Sealed payloads: K1 - 1 seeds and one vector, each with its kind."""
    return providers * (1 + SEAL_OVERHEAD_BYTES[SEALINGS[0]]) + 32 * (providers - 1) + 8 * layout.elements


def _cpu(work: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def _device(layout: MomentsLayout, people: list[dict[str, object]], settings: Settings) -> Iterator[Result]:
    source = SystemRandom()

    def submit() -> None:
        for person in people:
            split(build_report(layout, person, source), 2, source)

    each = 1e3 * _cpu(submit, settings.repeats(5)) / len(people)
    yield share_of_budget(
        "moments",
        "device's CPU a report, 20 columns, plain Python",
        each,
        _DEVICE_MS,
        "ms",
        "the issue's limit",
    )


def _provider(layout: MomentsLayout, reports: list[list[int]], settings: Settings) -> Iterator[Result]:
    """A batch of 1,024 at each of two providers: expand or read, five forms, verdict, sum; beside opening 1,024 seals."""
    source, batch = SystemRandom(), 256 if settings.quick else 1024
    ids = [source.read(16) for _ in range(batch)]
    parcels = [share_payloads(*split(reports[i % len(reports)], 2, source)) for i in range(batch)]
    key = challenge_key(_STUDY, [source.seed(), source.seed()])
    opener = SealingKey.generate(source)
    for provider, what in ((1, "a seed's"), (2, "a vector's")):
        mine = [parcel[provider - 1] for parcel in parcels]
        checker = BatchChecker(_STUDY, layout, provider, key)
        other = BatchChecker(_STUDY, layout, 3 - provider, key)
        said = other.form_values(
            ids, read_shares([parcel[2 - provider] for parcel in parcels], 3 - provider, 2, layout)
        )

        check = partial(_check, checker, ids, mine, said)
        sealed = [seal(opener.public, payload, b"bench") for payload in mine]
        check()  # the forms of all buckets are computed once a study
        spent = _cpu(check, settings.repeats(7, 3)) / batch
        seals = _cpu(partial(_open_all, opener, sealed), settings.repeats(7, 3)) / batch
        yield Result(
            "moments", f"provider's CPU a report: {what} share", "budget", 1e6 * spent, 1e6 * seals, "us",
            "opening a classical seal of the same bytes", spent / seals, _CHECK_SHARE,
            {"batch": batch, "elements": layout.elements},
        )  # fmt: skip


def _check(checker: BatchChecker, ids: list[bytes], payloads_here: list[bytes], said: FormValues) -> None:
    """A provider's work on a batch, but for opening seals and the network."""
    provider, layout = checker.provider, checker.layout
    shares = read_shares(payloads_here, provider, 2, layout)
    found = verdicts({provider: checker.form_values(ids, shares), 3 - provider: said})
    if any(found):
        raise AssertionError("an honest report was refused")
    sum_accepted(shares, [True] * len(found), layout)


def _open_all(opener: SealingKey, sealed: list[bytes]) -> None:
    for item in sealed:
        opener.open(item, b"bench")

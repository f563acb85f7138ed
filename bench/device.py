"""What taking part costs a device: processor time and bytes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bench.example import ATTRIBUTES, answers, offline_study
from bench.measure import best_seconds
from bench.other_protocols import prio3_moments_bytes, prio3_sum_vec_bytes, secagg_plus_bytes
from bench.results import Result, Settings, share_of_budget
from trimask_client import Client
from trimask_core.basics.randomness import SEED_BYTES, SystemRandom
from trimask_core.crypto.mlkem import CIPHERTEXT_BYTES
from trimask_core.rows.gateway import Gateway
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SealedSubmission, build_submission
from trimask_proto.v1.submission_pb2 import SubmitRequest

__all__ = ["NoTransport", "cases", "device", "request_bytes"]

BLOCK_ROWS = 256
_CPU_BUDGET_MS = 500.0
_GATEWAY_BUDGET_MS = 20.0
_IMPORT_BUDGET_MS = 300.0
_MEMORY_BUDGET_MB = 60.0
_BITS, _NEIGHBOURS = 10, 100  # of an answer in thousandths; for SecAgg+'s graph an assumption
_GRPC_PREFIX = 5  # the length and compression flag in front of every gRPC message


class NoTransport:
    """`prepare` sends nothing."""

    def call(self, endpoint: object, method: str, request: bytes, timeout_seconds: float) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


def request_bytes(submission: SealedSubmission) -> list[bytes]:
    """The K1 messages as they are uploaded."""
    return [
        SubmitRequest(
            study_id=submission.study_id, submission_id=submission.submission_id, sealed_component=sealed
        ).SerializeToString()
        for sealed in submission.sealed
    ]


def cases() -> list[tuple[str, Callable[[], SealedSubmission], float]]:
    """What a submission is timed at: its name, the work, and the milliseconds of processor time a row may take."""
    signed = offline_study(BLOCK_ROWS)
    text = signed.to_json()
    person = answers(np.random.default_rng(0))
    source = SystemRandom()
    known = signed.verify()

    gateway = Gateway(known)

    def first_time() -> SealedSubmission:
        return build_submission(SignedStudy.from_json(text).verify(), person, source)

    size = f"n = {BLOCK_ROWS}, {ATTRIBUTES} attributes, K1 = {len(known.right)}"
    first, later = "study read and verified, then masked, split, sealed", "masked, split, sealed"
    return [
        (f"{first}: {size}", first_time, _CPU_BUDGET_MS),
        (f"{later}: {size}", lambda: build_submission(known, person, source), _CPU_BUDGET_MS),
        (
            f"{later} by a gateway: {size}",
            lambda: gateway.submissions([person], source)[0],
            _GATEWAY_BUDGET_MS,
        ),
    ]


def device(settings: Settings) -> Iterator[Result]:
    """Answers to sealed components, for a device that sees the study for the first time and for one that has it."""
    for name, call, limit in cases():
        spent = best_seconds(call, settings.repeats(15, 5), time.process_time)
        yield share_of_budget("a device", name, 1e3 * spent, limit, "ms CPU", "stated")
    yield from _start(settings)
    signed = offline_study(BLOCK_ROWS)
    submission = Client(signed, transport=NoTransport()).prepare(answers(np.random.default_rng(0)))
    yield from _upload(signed.study, submission)


_STARTING = """
import sys, time
for name in ("grpc", "numpy"):
    sys.modules[name] = None
start = time.process_time()
from trimask_client import Client, Unreachable
loaded = time.process_time() - start
client = Client(sys.argv[1], attempts=1, timeout_seconds=1.0)
try:
    client.send(client.prepare({name: 1 for name in sys.argv[2:]}))
except Unreachable:
    pass  # nobody listens there; the transport is loaded all the same
with open("/proc/self/status") as status:
    peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(loaded, peak)
"""


def _start(settings: Settings) -> Iterator[Result]:
    """A fresh process as on a phone: without numpy and grpcio. Peak memory is Linux's to tell."""
    if not Path("/proc/self/status").exists():
        return
    signed = offline_study(BLOCK_ROWS)
    with tempfile.TemporaryDirectory(prefix="trimask-bench-") as folder:
        path = Path(folder) / "study.json"
        path.write_text(signed.to_json(), encoding="utf-8")
        names = [attribute.name for attribute in signed.study.schema.attributes]
        command = [sys.executable, "-c", _STARTING, str(path), *names]
        runs = [
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            for _ in range(settings.repeats(7, 2))
        ]
    loaded = 1e3 * min(float(run[0]) for run in runs)
    peak = min(int(run[1]) for run in runs) / 1024
    yield share_of_budget(
        "a device", "import of trimask_client", loaded, _IMPORT_BUDGET_MS, "ms CPU", "stated"
    )
    yield share_of_budget("a device", "peak memory", peak, _MEMORY_BUDGET_MB, "MB", "stated")


def _upload(study: Study, submission: SealedSubmission) -> Iterator[Result]:
    messages = [len(message) + _GRPC_PREFIX for message in request_bytes(submission)]
    components = len(messages)
    theory = [SEED_BYTES] * (components - 1) + [8 * study.rows.columns]
    yield share_of_budget(
        "a device",
        f"uploaded in all: p = {study.rows.columns:,}, {components} components",
        sum(messages),
        10 * 1024 + (100 + CIPHERTEXT_BYTES) * components,
        "bytes",
        "10 KB + 100 bytes and one of ML-KEM's a component",
        theoretical=sum(theory),
    )
    for k, (got, least) in enumerate(zip(messages, theory, strict=True), 1):
        yield Result(
            "a device", f"component {k}", "budget", got, least, "bytes",
            "a 32-byte seed" if k < components else f"{study.rows.columns:,} values of 8 bytes", got / least,
        )  # fmt: skip
    yield from _beside_others(sum(messages), components)


def _beside_others(uploaded: int, components: int) -> Iterator[Result]:
    """The same values with Prio3 and SecAgg+: their sums alone, and with the products that regression needs.

    Trimask's row is enough for both, whatever is fitted later; the others are told beforehand what to add up.
    """
    products = ATTRIBUTES * (ATTRIBUTES + 1) // 2
    for what, values, prio3 in (
        (f"{ATTRIBUTES} values", ATTRIBUTES, prio3_sum_vec_bytes(ATTRIBUTES, _BITS, components)),
        (
            f"{ATTRIBUTES} values and their {products} products, by a circuit that no draft has",
            ATTRIBUTES + products,
            prio3_moments_bytes(ATTRIBUTES, _BITS, components),
        ),
    ):
        secagg = secagg_plus_bytes(values, _NEIGHBOURS)
        for name, theirs, whence in (
            (
                f"Prio3, {_BITS} bits, {components} aggregators",
                prio3,
                "draft-irtf-cfrg-vdaf-13, computed",
            ),
            (
                f"SecAgg+, {_NEIGHBOURS} neighbours",
                secagg,
                "Bell et al. 2020 and Flower's defaults, computed",
            ),
        ):
            yield Result(
                "a device", f"uploaded beside {name}: {what}", "budget", uploaded, theirs, "bytes", whence,
                uploaded / theirs,
            )  # fmt: skip

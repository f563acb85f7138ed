"""What taking part costs a device: processor time and bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from bench.example import ATTRIBUTES, answers, offline_study
from bench.measure import best_seconds
from bench.results import Result, Settings, share_of_budget
from trimask_client import Client
from trimask_core.randomness import SEED_BYTES
from trimask_core.study import SignedStudy, Study
from trimask_core.submission import SealedSubmission
from trimask_proto.v1.submission_pb2 import SubmitRequest

__all__ = ["NoTransport", "device", "request_bytes"]

BLOCK_ROWS = 256
_CPU_BUDGET_MS = 20.0
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


def device(settings: Settings) -> Iterator[Result]:
    """Answers to sealed components, for a device that sees the study for the first time and for one that has it."""
    signed = offline_study(BLOCK_ROWS)
    text, study = signed.to_json(), signed.study
    person = answers(np.random.default_rng(0))

    def from_nothing() -> SealedSubmission:
        return Client(SignedStudy.from_json(text), transport=NoTransport()).prepare(person)

    client = Client(signed, transport=NoTransport())
    size = f"n = {BLOCK_ROWS}, {ATTRIBUTES} attributes, K1 = {len(study.right)}"
    repeats = settings.repeats(15, 5)
    for name, call in (
        ("study read and verified, then masked, split, sealed", from_nothing),
        ("masked, split, sealed", lambda: client.prepare(person)),
    ):
        spent = best_seconds(call, repeats, time.process_time)
        yield share_of_budget("a device", f"{name}: {size}", 1e3 * spent, _CPU_BUDGET_MS, "ms CPU", "stated")
    yield from _upload(study, from_nothing())


def _upload(study: Study, submission: SealedSubmission) -> Iterator[Result]:
    messages = [len(message) + _GRPC_PREFIX for message in request_bytes(submission)]
    components = len(messages)
    theory = [SEED_BYTES] * (components - 1) + [8 * study.columns]
    yield share_of_budget(
        "a device",
        f"uploaded in all: p = {study.columns:,}, {components} components",
        sum(messages),
        10 * 1024 + 100 * components,
        "bytes",
        "10 KB + 100 bytes a component",
        theoretical=sum(theory),
    )
    for k, (got, least) in enumerate(zip(messages, theory, strict=True), 1):
        yield Result(
            "a device", f"component {k}", "budget", got, least, "bytes",
            "a 32-byte seed" if k < components else f"{study.columns:,} values of 8 bytes", got / least,
        )  # fmt: skip

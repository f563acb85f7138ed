"""A stranger has the collector ask everybody else, once for each question of their own.

300 anonymous questions for a study's status made 1,500 calls to its five providers; nothing limited them by default.
"""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from trimask_client.grpc_channel import open_channel
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.refusals import REASON_KEY
from trimask_core.study.definition import Study
from trimask_lab import Lab
from trimask_patience import patience
from trimask_proto.v1.study_pb2 import GetStudyStatusRequest
from trimask_proto.v1.study_pb2_grpc import StudyServiceStub
from trimask_server.collector.provider_status import ProviderStatus
from trimask_server.local.cluster import ThreadCluster

QUESTIONS = 300
_DESCRIBE = "NodeService/DescribeNode"


class _Still(SystemClock):
    """All of it happens at one moment."""

    def __init__(self) -> None:
        self._now = super().now_ms() + 3_600_000

    def now_ms(self) -> int:
        return self._now


def described(lab: Lab) -> float:
    """How often the collector asked a provider for its description."""
    total = 0.0
    for node in lab.nodes("collector"):
        for family in node.context.metrics.peer_calls.collect():
            for sample in family.samples:
                if sample.name.endswith("_total") and _DESCRIBE in sample.labels["rpc"]:
                    total += sample.value
    return total


def ask(lab: Lab, study: Study) -> list[str]:
    """Ask for the status over and over, several at a time; what was answered to each."""
    party = lab.parties["collector"]
    with (
        open_channel(party.address, lab.owner / "ca.pem", party.tls_name) as channel,
        ThreadPoolExecutor(8) as pool,
    ):
        stub = StudyServiceStub(channel)

        def one(_: int) -> str:
            call = stub.GetStudyStatus.future(GetStudyStatusRequest(study_id=study.id), timeout=patience(30))
            with contextlib.suppress(grpc.RpcError):
                call.result()
            return str(dict(call.trailing_metadata() or ()).get(REASON_KEY, "answered"))

        return list(pool.map(one, range(QUESTIONS)))


def test_many_questions_are_one_question_to_the_providers(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lab = Lab(
        tmp_path, right=2, left=1
    )  # its own: every minute a collector asks about all studies that are closed
    with lab.in_thread(request), lab.at_another_time("collector", _Still()):
        signed = lab.open_study()
        before = described(lab)
        assert set(ask(lab, signed.study)) == {"answered"}
        # The three providers, once; and when its driver looks, which nobody can hasten.
        assert described(lab) - before <= 12 * len(lab.nodes("collector"))


@pytest.mark.slow
def test_without_the_cache_every_question_asks_everybody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProviderStatus, "describe_cached", ProviderStatus._describe_and_keep_heads)
    signed = lab.open_study()
    before = described(lab)
    assert set(ask(lab, signed.study)) == {"answered"}
    assert described(lab) - before >= 3 * QUESTIONS


def test_questions_are_limited_without_a_setting(tmp_path: Path) -> None:
    lab = Lab(tmp_path, right=2, left=1)
    path = lab.folder / "collector" / "node.toml"
    assert "rate_limit_per_second = 0 " in path.read_text()  # what a cluster on one machine is given
    path.write_text(path.read_text().replace("rate_limit_per_second = 0 ", "#"))
    with ThreadCluster(lab.folder) as lab.cluster:
        signed = lab.open_study()
        start = time.monotonic()
        answers = ask(lab, signed.study)
        refilled = 20 * (time.monotonic() - start)  # calls an address may make more, on a slow machine
        counted = lab.refusals("collector")["rate_limited"]
    assert answers.count("rate_limited") == counted
    assert counted >= QUESTIONS - 200 - 1 - refilled
    assert counted or refilled >= QUESTIONS - 200

"""Parties that do not keep to the protocol of the moments suite, on a lab's real cluster."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from trimask_client.grpc_channel import plain_errors
from trimask_core.basics.errors import Refused
from trimask_core.moments.field import unpack
from trimask_core.moments.totals import decode
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import plan_message, split_ids
from trimask_lab import Lab
from trimask_patience import patience
from trimask_proto.v1 import moments_pb2, right_batches_pb2
from trimask_proto.v1.common_pb2 import Attempt
from trimask_proto.v1.moments_pb2_grpc import MomentsPeerServiceStub, MomentsServiceStub
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_terminal.program import main

__all__ = ["RogueCollector", "back_up", "batch_name", "refused_with", "restore"]


def batch_name(label: str) -> bytes:
    """A batch id."""
    return hashlib.sha256(label.encode()).digest()[:16]


@contextlib.contextmanager
def refused_with(*reasons: str) -> Iterator[None]:
    """What is done inside is refused, for one of these reasons."""
    with pytest.raises(Refused) as caught:
        yield
    assert caught.value.reason in reasons, caught.value


class RogueCollector:
    """Whoever has the collector's keys and asks what it likes; the collector's own node is stopped meanwhile."""

    def __init__(self, lab: Lab, study: Study) -> None:
        self.lab = lab
        self.study = study
        self.roles = study.right_roles

    def call(self, stub: Any, method: str, to: str, request: Any, who: str = "collector") -> Any:
        """One call with a party's certificate."""
        with self.lab.channel_as(who, to) as channel, plain_errors(to):
            return getattr(stub(channel), method)(request, timeout=patience(30))

    def pending(self, role: str) -> list[bytes]:
        """The reports that wait at a provider."""
        request = right_batches_pb2.ListPendingRequest(study_id=self.study.id)
        return sorted(
            split_ids(self.call(RightBatchServiceStub, "ListPending", role, request).submission_ids)
        )

    def assign(self, batch: bytes, ids: Sequence[bytes], roles: Sequence[str] = ()) -> None:
        """Plan a batch, at every right provider or at some."""
        joined = b"".join(sorted(ids))
        message = plan_message(self.study.id, batch, joined)
        request = right_batches_pb2.AssignBlockRequest(
            study_id=self.study.id,
            block_id=batch,
            submission_ids=joined,
            signature=self.lab.key("collector").sign("block-plan", message),
        )
        for role in roles or self.roles:
            self.call(RightBatchServiceStub, "AssignBlock", role, request)

    def check(self, batch: bytes, roles: Sequence[str] = ()) -> list[moments_pb2.CheckBatchResponse]:
        """Have a batch checked and added up."""
        request = moments_pb2.CheckBatchRequest(attempt=self.attempt(batch))
        return [self.call(MomentsServiceStub, "CheckBatch", role, request) for role in roles or self.roles]

    def add(self, label: str, ids: Sequence[bytes]) -> bytes:
        """A batch planned, checked and added up everywhere."""
        batch = batch_name(label)
        self.assign(batch, ids)
        self.check(batch)
        return batch

    def attempt(self, batch: bytes) -> Attempt:
        """A try at a batch."""
        return Attempt(study_id=self.study.id, block_id=batch, number=1)

    def ask_peer(self, method: str, to: str, batch: bytes, ids: Sequence[bytes], who: str) -> Any:
        """What only another right provider may ask."""
        request = getattr(moments_pb2, f"{method}Request")(
            attempt=self.attempt(batch),
            submission_ids_hash=hashlib.sha256(b"".join(sorted(ids))).digest(),
        )
        return self.call(MomentsPeerServiceStub, method, to, request, who)

    # Totals

    def totals(self, number: int, batches: Sequence[bytes], question: bytes = b"") -> moments_pb2.AskedTotals:
        """What is asked of every provider."""
        return moments_pb2.AskedTotals(
            study_id=self.study.id, release_number=number, batch_ids=b"".join(batches), question=question
        )

    def commit(self, role: str, totals: moments_pb2.AskedTotals) -> moments_pb2.TotalsCommitment:
        """A provider's commitment."""
        request = moments_pb2.CommitTotalsRequest(totals=totals)
        answer = self.call(MomentsServiceStub, "CommitTotals", role, request).commitment
        assert isinstance(answer, moments_pb2.TotalsCommitment)
        return answer

    def deliver(
        self,
        role: str,
        totals: moments_pb2.AskedTotals,
        commitments: Sequence[moments_pb2.TotalsCommitment],
    ) -> bytes:
        """A provider's delivery."""
        return bytes(self.delivery(role, totals, commitments).values)

    def delivery(
        self,
        role: str,
        totals: moments_pb2.AskedTotals,
        commitments: Sequence[moments_pb2.TotalsCommitment],
    ) -> moments_pb2.DeliverTotalsResponse:
        """The same with its salt and signature."""
        request = moments_pb2.DeliverTotalsRequest(totals=totals, commitments=commitments)
        answer = self.call(MomentsServiceStub, "DeliverTotals", role, request)
        assert isinstance(answer, moments_pb2.DeliverTotalsResponse)
        return answer

    def release(self, totals: moments_pb2.AskedTotals) -> list[bytes]:
        """Every provider's delivery, as an honest collector would get them."""
        commitments = [self.commit(role, totals) for role in self.roles]
        return [self.deliver(role, totals, commitments) for role in self.roles]

    @staticmethod
    def opened(deliveries: Sequence[bytes]) -> list[int]:
        """The noisy totals."""
        return decode([unpack(delivery) for delivery in deliveries])


def back_up(lab: Lab, name: str, file: Path) -> None:
    """As its operator does."""
    assert main(["node", "backup", "--config", str(lab.folder / name / "node.toml"), "--out", str(file)]) == 0


def restore(lab: Lab, name: str, file: Path, *, ledger_kept: bool = True) -> None:
    """The node's store is the backup's again; its keys stay as they are, and so, its operator says, does its ledger."""
    lab.stop(name)
    command = [
        "node",
        "restore",
        "--config",
        str(lab.folder / name / "node.toml"),
        "--from",
        str(file),
        "--force",
    ]
    assert main([*command, "--ledger-kept"] if ledger_kept else command) == 0
    lab.start(name)

"""Whoever has a collector's keys in a study of the rows suite, on a lab's real cluster; the collector's node is stopped."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from trimask_client import Client
from trimask_client.grpc_channel import plain_errors
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.signed import sign_close
from trimask_lab import Lab, some_people
from trimask_patience import patience
from trimask_proto.v1 import right_batches_pb2, row_check_pb2, row_draw_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_proto.v1.row_check_pb2 import RowCheck
from trimask_proto.v1.row_check_pb2_grpc import RowCheckServiceStub
from trimask_proto.v1.row_draw_pb2 import RowDraw
from trimask_proto.v1.row_draw_pb2_grpc import RowDrawServiceStub
from trimask_server.suites.rows.draw import Draw

__all__ = ["RowRogue"]


class RowRogue:
    """The steps of a draw, one by one and as it likes."""

    def __init__(self, lab: Lab, people: int, **changes: Any) -> None:
        self.lab = lab
        self.signed = lab.open_study(**changes)
        self.study = self.signed.study
        self.roles = self.study.right_roles
        lab.stop("collector")
        with Client(self.signed) as client:
            self.receipts = [client.submit(person) for person in some_people(people, seed=9)]
        self.ids = sorted(receipt.submission_id for receipt in self.receipts)

    @classmethod
    @contextlib.contextmanager
    def at_work(cls, lab: Lab, people: int, **changes: Any) -> Iterator[RowRogue]:
        """In the place of the collector."""
        try:
            yield cls(lab, people, **changes)
        finally:
            lab.start("collector")

    def call(self, role: str, stub: Any, method: str, request: Any, who: str = "collector") -> Any:
        """One call, as somebody."""
        with self.lab.channel_as(who, to=role) as channel, plain_errors(role):
            return getattr(stub(channel), method)(request, timeout=patience(30))

    # The draw

    def freeze(self, number: int = 1, roles: Sequence[str] = ()) -> RowDraw:
        """A draw with the lists of all, or of these."""
        request = row_draw_pb2.FreezeDrawRequest(study_id=self.study.id, number=number)
        asked = roles or self.roles
        rows = [self.call(role, RowDrawServiceStub, "FreezeDraw", request).rows for role in asked]
        return RowDraw(study_id=self.study.id, number=number, lists=rows)

    def judge(self, said: RowDraw, role: str) -> row_draw_pb2.JudgeDrawResponse:
        """A provider's verdicts, if it has them."""
        answer = self.call(role, RowDrawServiceStub, "JudgeDraw", row_draw_pb2.JudgeDrawRequest(draw=said))
        assert isinstance(answer, row_draw_pb2.JudgeDrawResponse)
        return answer

    def judge_all(self, said: RowDraw) -> bool:
        """Take the verdicts of all; whether all have given them."""
        answers = [self.judge(said, role) for role in self.roles]
        given = all(answer.HasField("verdicts") for answer in answers)
        if given:
            said.verdicts.extend(answer.verdicts for answer in answers)
        return given

    def open(self, said: RowDraw, role: str) -> bytes:
        """A provider's coin, or nothing."""
        request = row_draw_pb2.OpenDrawRequest(draw=said)
        return bytes(self.call(role, RowDrawServiceStub, "OpenDraw", request).coin)

    def settle(self, said: RowDraw) -> Draw:
        """The draw, once all know its coins."""
        said.coins.extend(self.open(said, role) for role in self.roles)
        request = row_draw_pb2.SettleDrawRequest(draw=said)
        for role in self.roles:
            self.call(role, RowDrawServiceStub, "SettleDraw", request)
        return Draw.verified(self.study, said)

    def bind(self, role: str, block_id: bytes) -> bytes:
        """A provider's signature that it has bound a block."""
        request = right_batches_pb2.AssignBlockRequest(study_id=self.study.id, block_id=block_id)
        return bytes(self.call(role, RightBatchServiceStub, "AssignBlock", request).bound_signature)

    def stop_intake(self, role: str, key: SigningKey, people: int = 0) -> None:
        """Have a provider take no more rows in, by an order signed with this key, for now or for so many people."""
        order = CloseOrder(study_id=self.study.id, close_people=people)
        order.signature = sign_close(key, order)
        request = right_batches_pb2.StopIntakeRequest(order=order)
        self.call(role, RightBatchServiceStub, "StopIntake", request)

    # Checks

    def of_draw(self, said: RowDraw) -> RowCheck:
        """The one check that a draw of few rows has."""
        ((check_id, ids),) = Draw(self.study, said).checks
        return self._check(check_id, ids)

    def of_choice(self, name: str, ids: Sequence[bytes]) -> RowCheck:
        """A check of its own choice."""
        return self._check(hashlib.sha256(name.encode()).digest()[:16], ids)

    def _check(self, check_id: bytes, ids: Sequence[bytes]) -> RowCheck:
        return RowCheck(
            study_id=self.study.id, check_id=check_id, submission_ids=b"".join(sorted(ids)),
            mask_seed=self.study.rows.mask_seed,
        )  # fmt: skip

    def commit(self, check: RowCheck) -> None:
        """Take the commitments of all."""
        for role in self.roles:
            request = row_check_pb2.CommitCheckRequest(check=check)
            answer = self.call(role, RowCheckServiceStub, "CommitCheck", request)
            check.commitments.append(answer.commitment)

    def reveal(self, check: RowCheck, role: str) -> bytes:
        """A provider's coin for a check."""
        request = row_check_pb2.RevealCoinRequest(check=check)
        return bytes(self.call(role, RowCheckServiceStub, "RevealCoin", request).coin)

    def decide(self, check: RowCheck, role: str) -> bytes:
        """A provider's verdicts on a check."""
        request = row_check_pb2.DecideCheckRequest(check=check)
        return bytes(self.call(role, RowCheckServiceStub, "DecideCheck", request).verdicts)

    def run(self, check: RowCheck) -> None:
        """A check from its beginning to its end."""
        self.commit(check)
        check.coins.extend(self.reveal(check, role) for role in self.roles)
        for role in self.roles:
            self.decide(check, role)

"""Witnesses of a budget without a network, for tests of a collector alone: they sign with the keys they are given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trimask_core.budget_chain import BudgetLink, chain, sign_spend
from trimask_core.identity import SigningKey
from trimask_core.study import Study
from trimask_proto.v1 import witness_pb2
from trimask_server.suites.rows.answers import RowsAnswers

__all__ = ["WitnessedAnswers"]


@dataclass(frozen=True)
class WitnessedAnswers(RowsAnswers):
    """Answers of the rows suite, whose right providers are at hand and sign everything."""

    identities: Mapping[str, SigningKey] = field(default_factory=dict)

    async def witness(
        self, study: Study, links: Sequence[BudgetLink], number: int, answer: bytes
    ) -> witness_pb2.WitnessedSpend:
        heads = chain(study.id, links)
        assert links[number - 1].answer_hash == hashlib.sha256(answer).digest()
        return witness_pb2.WitnessedSpend(
            number=number,
            head=heads[number - 1],
            signatures=[
                witness_pb2.WitnessSignature(
                    role=role, signature=sign_spend(key, study.id, number, heads, links[number - 1])
                )
                for role, key in self.identities.items()
                if role.startswith("R")
            ],
        )

    async def erase(self, study: Study) -> None:
        pass

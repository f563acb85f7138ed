"""A collector's signed answer, checked: it is to the request sent, about the study asked, signed by its collector, and in
the rows suite its price is witnessed by every right provider."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimask.errors import VerificationError
from trimask.shown import Shown
from trimask_core.budget_chain import verify_spend
from trimask_core.guarantee import Guarantee
from trimask_core.identity import verify
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

__all__ = ["Answer"]

_FORMAT = "trimask-answer/1"


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Shown):
    """What was asked, what came, what it cost. `raw` and `signature` are what the collector signed.

    `number` and `head` are the price's place in the chain of spends, `witnesses` who has signed it. In the moments suite
    there are none: providers charge ledgers of their own.
    """

    study_id: str
    request_id: str
    mechanism: str
    rows: int
    parameters: Mapping[str, Any]
    values: Mapping[str, Any] = field(repr=False)
    guarantee: Guarantee
    cost: Mapping[str, float | None]
    replayed: bool
    raw: bytes = field(repr=False)
    signature: bytes = field(repr=False)

    witnessed_by: tuple[str, ...] = ()
    number: int = 0
    head: bytes = field(default=b"", repr=False)
    witnesses: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @classmethod
    def read(
        cls, study: Study, request: release_pb2.AskReleaseRequest, response: release_pb2.AskReleaseResponse
    ) -> Answer:
        """Check and read a reply; `VerificationError` if it is not what was asked for."""
        word = response.witnessed
        answer = cls.checked(
            study,
            response.answer,
            response.signature,
            (word.number, word.head, {item.role: item.signature for item in word.signatures}),
            replayed=response.replayed,
        )
        sent = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        if (answer.request_id, json.loads(answer.raw)["request_sha256"]) != (request.request_id.hex(), sent):
            raise VerificationError("the collector sent the answer to another request")
        return answer

    @classmethod
    def checked(
        cls,
        study: Study,
        raw: bytes,
        signature: bytes,
        spend: tuple[int, bytes, Mapping[str, bytes]],
        *,
        replayed: bool = False,
    ) -> Answer:
        """An answer, whoever kept it, with its collector's signature and its place in the chain of spends."""
        verify(study.collector.identity, "release-answer", raw, signature, "a release answer")
        number, head, witnesses = spend
        if study.suite.name == "rows":
            verify_spend(study, number, head, raw, witnesses)
        try:
            body = json.loads(raw)
            if (body["format"], body["study_id"]) != (_FORMAT, study.id.hex()):
                raise VerificationError("this is an answer about another study")
            return cls(
                study_id=body["study_id"],
                request_id=body["request_id"],
                mechanism=body["mechanism"],
                rows=body["rows"],
                parameters=body["parameters"],
                values=body["values"],
                guarantee=Guarantee.from_dict(body["guarantee"]),
                cost=body["cost"],
                replayed=replayed,
                raw=raw,
                signature=signature,
                witnessed_by=tuple(sorted(witnesses)),
                number=number,
                head=head,
                witnesses=dict(witnesses),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"the collector's answer cannot be read: {error}") from None

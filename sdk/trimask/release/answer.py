"""A collector's signed answer, checked: it is to the request sent, about the study asked, and signed by its collector.

What the right providers signed of it is checked in `gathered`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimask.data.catalogue import Shown
from trimask.errors import VerificationError
from trimask_core.crypto.identity import verify
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_proto.v1 import release_pb2

_FORMAT = "trimask-answer/1"


@dataclass(frozen=True, slots=True, eq=False)
class Answer(Shown):
    """What was asked, what came, what it cost. `raw` and `signature` are what the collector signed."""

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

    @classmethod
    def read(
        cls, study: Study, request: release_pb2.AskReleaseRequest, response: release_pb2.AskReleaseResponse
    ) -> Answer:
        """Check and read a reply; `VerificationError` if it is not what was asked for."""
        answer = cls.checked(study, response.answer, response.signature, replayed=response.replayed)
        sent = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
        if (answer.request_id, json.loads(answer.raw)["request_sha256"]) != (request.request_id.hex(), sent):
            raise VerificationError("the collector sent the answer to another request")
        return answer

    @classmethod
    def checked(cls, study: Study, raw: bytes, signature: bytes, *, replayed: bool = False) -> Answer:
        """An answer, whoever kept it, with its collector's signature."""
        verify(study.collector.identity, "release-answer", raw, signature, "a release answer")
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
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"the collector's answer cannot be read: {error}") from None

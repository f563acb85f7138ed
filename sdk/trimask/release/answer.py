"""A collector's signed answer, checked: it is to the request sent, about the study asked, and signed by its collector."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trimask.errors import VerificationError
from trimask_core.guarantee import Guarantee
from trimask_core.identity import verify
from trimask_core.study import Study
from trimask_proto.v1 import release_pb2

__all__ = ["Answer"]

_FORMAT = "trimask-answer/1"


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
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
        verify(
            study.collector.identity,
            "release-answer",
            response.answer,
            response.signature,
            "a release answer",
        )
        try:
            body = json.loads(response.answer)
            sent = hashlib.sha256(request.SerializeToString(deterministic=True)).hexdigest()
            same = (body["format"], body["study_id"], body["request_id"], body["request_sha256"])
            if same != (_FORMAT, study.id.hex(), request.request_id.hex(), sent):
                raise VerificationError("the collector sent the answer to another request")
            return cls(
                study_id=body["study_id"],
                request_id=body["request_id"],
                mechanism=body["mechanism"],
                rows=body["rows"],
                parameters=body["parameters"],
                values=body["values"],
                guarantee=Guarantee.from_dict(body["guarantee"]),
                cost=body["cost"],
                replayed=response.replayed,
                raw=response.answer,
                signature=response.signature,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise VerificationError(f"the collector's answer cannot be read: {error}") from None

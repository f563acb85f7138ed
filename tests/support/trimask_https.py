"""A device that calls as browsers do: Connect's unary protocol over HTTPS, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from trimask_client.transport import Endpoint, call_error, read_retry
from trimask_core.study.definition import Study
from trimask_patience import patience

__all__ = ["HOST", "PAGE_HASH", "WEB", "Answer", "HttpsTransport", "post", "tls"]

HOST = "https://survey.example"
PAGE_HASH = "ab" * 32
WEB = f'\n[web]\nhosts = ["{HOST}"]\npage_sha256 = "{PAGE_HASH}"\n'


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str | None:
        """The refusal's word."""
        return self.headers.get("trimask-reason")

    @property
    def error(self) -> dict[str, Any]:
        """A refusal's JSON."""
        found: dict[str, Any] = json.loads(self.body)
        return found


def tls(roots: Path) -> ssl.SSLContext:
    """Trusting one authority."""
    return ssl.create_default_context(cafile=roots)


def post(
    origin: str,
    path: str,
    body: bytes,
    context: ssl.SSLContext,
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own."""
    place = urlsplit(origin)
    connection = http.client.HTTPSConnection(
        place.hostname or "", place.port or 443, timeout=patience(30), context=context
    )
    try:
        given = {"Content-Type": "application/proto", "Connect-Protocol-Version": "1"} | (headers or {})
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return Answer(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        )
    finally:
        connection.close()


class HttpsTransport:
    """A client's transport that takes a study's https origins in place of its gRPC addresses."""

    def __init__(self, study: Study, roots: Path, origin: str | None = HOST) -> None:
        self._origins = {party.address: party.https for party in study.parties.values() if party.https}
        self._context = tls(roots)
        self._headers = {} if origin is None else {"Origin": origin}

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """The response's bytes, or what `trimask_client` raises for such a refusal."""
        headers = self._headers | {"Connect-Timeout-Ms": str(round(1000 * timeout_seconds))}
        answer = post(self._origins[endpoint.address], method, request, self._context, headers=headers)
        if answer.status == 200:
            return answer.body
        status = answer.error["code"].upper().replace("CANCELED", "CANCELLED")
        retry = read_retry(answer.headers.get("retry-after-ms"))
        raise call_error(endpoint, status, answer.reason, answer.error["message"], retry)

    def close(self) -> None:
        """Nothing is kept open."""

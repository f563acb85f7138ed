"""The default transport: gRPC over h2, imported at the first call."""

from __future__ import annotations

import threading

from trimask_client.transport import Endpoint, Transport


class LazyTransport:
    """gRPC over h2, imported at the first call: reading a study or sealing answers does not need it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._made: Transport | None = None

    def call(self, endpoint: Endpoint, method: str, request: bytes, timeout_seconds: float) -> bytes:
        """See `Transport`."""
        from trimask_client.h2_transport import H2Transport

        with self._guard:
            transport = self._made = self._made or H2Transport()
        return transport.call(endpoint, method, request, timeout_seconds)

    def close(self) -> None:
        """See `Transport`."""
        with self._guard:
            made, self._made = self._made, None
        if made is not None:
            made.close()

"""A collector that has a provider connect to a place of the collector's choice.

A try names the worker of each node that takes part. Providers dialled whatever address it named: a connection to any host
and port that the provider's network reaches, kept open while the provider ran.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask.data.connection import StudyStatus
from trimask_client import Client
from trimask_core.basics.refusals import Reason
from trimask_lab import ON_POSTGRES, Lab, some_people
from trimask_proto.v1.common_pb2 import Worker
from trimask_server.access import governance
from trimask_server.access.governance import sign_worker
from trimask_server.collector import provider_status
from trimask_server.local.cluster import ThreadCluster
from trimask_server.suites.rows import masking_attempt


class Trap:
    """A port that nothing in the study has to do with, and how many came to it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.visits = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                connection.close()
                self.visits += 1

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()


@pytest.fixture
def trap() -> Iterator[Trap]:
    trap = Trap()
    yield trap
    trap.close()


@pytest.mark.slow
@pytest.mark.skipif(ON_POSTGRES, reason="the collector's part is patched, for one worker")
def test_without_the_signature_a_provider_goes_where_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap
) -> None:
    monkeypatch.setattr(governance, "verify", lambda *_: None)
    _lead_astray(monkeypatch, trap, b"")
    lab = Lab(tmp_path, right=2, left=2)
    with ThreadCluster(lab.folder) as lab.cluster:
        signed = lab.open_study()
        with Client(signed) as client:
            for answers in some_people(52, 3):
                client.submit(answers)
        lab.wait(signed.study, lambda _: trap.visits > 0)


def _lead_astray(monkeypatch: pytest.MonkeyPatch, trap: Trap, signature: bytes) -> None:
    """The collector's own part: it names the trap, and calls everybody where they are."""

    def led_astray(*_: Any) -> list[Worker]:
        return [Worker(role="L2", address=trap.address, signature=signature)]

    monkeypatch.setattr(masking_attempt.MaskingAttempts, "_workers", led_astray)
    for module in (masking_attempt, provider_status):
        monkeypatch.setattr(module, "worker_of", lambda *_: "")


@pytest.mark.skipif(ON_POSTGRES, reason="the collector's part is patched, for one worker")
@pytest.mark.parametrize("signer", ["nobody", "the collector"])
def test_a_provider_dials_no_address_that_its_peer_has_not_signed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trap: Trap, signer: str
) -> None:
    lab = Lab(tmp_path, right=2, left=2)
    signature = b"" if signer == "nobody" else sign_worker(lab.key("collector"), trap.address)
    _lead_astray(monkeypatch, trap, signature)
    with ThreadCluster(lab.folder) as lab.cluster:
        signed = lab.open_study()
        with Client(signed) as client:
            for answers in some_people(52, 3):
                client.submit(answers)
        lab.wait(signed.study, lambda status: trap.visits > 0 or _refused(status) > 0)
        assert trap.visits == 0


def _refused(status: StudyStatus) -> int:
    """How often providers refused to take part in a try for an address in it."""
    return sum((status.refusals[role] or {}).get(Reason.BAD_SIGNATURE, 0) for role in ("R1", "R2", "L1"))

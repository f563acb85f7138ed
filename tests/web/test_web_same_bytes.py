"""One person's row from the command line's client, from the app and from the browser's library: the same bytes."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from moments_cases import EFFECTS, SMALL, SMALL_ANSWERS
from trimask_client import Client, Queue
from trimask_core.crypto.keys import hpke_seal
from trimask_core.study.pilot import PilotCorrection
from trimask_core.submit import submission as submissions
from trimask_mobile.model.device import Device
from trimask_web import run_node
from web_cases import Recorded, made_study

EFFECTS_ANSWERS = {"hours": 0.5, "age": 33, "smoker": True, "region": "west", "sex": "m"}
_ENTRIES = len(SMALL.columns) * (len(SMALL.columns) + 1) // 2
PILOT = PilotCorrection(20, (0.0, 1.25e-7, *(-0.5,) * (_ENTRIES - 2)), ((0.25,) * _ENTRIES,), 1e-9)
CASES: dict[str, tuple[dict[str, Any], dict[str, object]]] = {
    "rows with tags": (
        {"schema": EFFECTS, "right": 4, "block_rows": 60, "sigma": 2.0},
        EFFECTS_ANSWERS,
    ),
    "moments with a ball": (
        {"schema": SMALL, "suite": "moments", "right": 3, "sigma": 30.0, "row_norm": 2.25, "pilot": PILOT},
        dict(SMALL_ANSWERS),
    ),
}


class Again:
    """Repeatable randomness that can be begun again, for tests alone; the sealing keys are drawn from it too."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._source = Recorded("same bytes")

    def read(self, count: int) -> bytes:
        return self._source.read(count)

    def seed(self) -> bytes:
        return self.read(32)


@pytest.mark.parametrize("name", CASES)
def test_the_same_bytes_from_client_app_and_browser(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, answers = CASES[name]
    signed = made_study(name, **settings).signed
    source = Again()

    def sealed_from_source(public: bytes, plaintext: bytes, info: bytes) -> bytes:
        return hpke_seal(
            public, plaintext, info, ephemeral=X25519PrivateKey.from_private_bytes(source.seed())
        )

    monkeypatch.setattr(submissions, "seal", sealed_from_source)
    client = Client(signed, source=source)
    source.begin()
    by_client = client.prepare(answers)
    app = Device(tmp_path / "phone", key=bytes(32))
    app.queue.close()
    app.queue = Queue(
        tmp_path / "phone", bytes(32), source=source
    )  # the app has the system's generator alone
    app.queue.join(signed)
    source.begin()
    entry = app.queue.seal(signed.study.id, answers)
    payload = app.queue._vault.get("payloads", entry.submission_id.hex())
    assert payload is not None
    source.begin()
    case = {
        "signed": signed.to_json(),
        "answers": answers,
        "randomness": source.read(1 << 18).hex(),
    }
    path = tmp_path / "case.json"
    path.write_text(json.dumps([case]), encoding="utf-8")
    from_browser = json.loads(run_node("tests/web/requests.js", path))
    from_client = [
        client.upload_request(by_client, k)[1].hex() for k in range(1, len(signed.study.right) + 1)
    ]
    assert entry.submission_id == by_client.submission_id
    assert payload["sealed"] == [base64.b64encode(part).decode() for part in by_client.sealed]
    assert from_browser == from_client

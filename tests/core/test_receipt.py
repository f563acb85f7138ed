"""Receipts verify as a whole or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.submit.submission import ProviderReceipt, Receipt, receipt_message

SUBMISSION = bytes(range(16))


def make_receipt(made: Any, time_ms: int = 1_700_000_000_123) -> Receipt:
    providers = []
    for k in range(1, len(made.study.right) + 1):
        sealed = f"sealed {k}".encode()
        signature = made.identities[f"R{k}"].sign(
            "receipt", receipt_message(made.study.id, SUBMISSION, sealed, time_ms)
        )
        providers.append(ProviderReceipt(f"R{k}", hashlib.sha256(sealed).digest(), time_ms, signature))
    return Receipt(made.study.id, SUBMISSION, tuple(providers))


@pytest.fixture(scope="module")
def receipt(made_study: Any) -> Receipt:
    return make_receipt(made_study)


def test_verifies_and_survives_json(receipt: Receipt, made_study: Any) -> None:
    receipt.verify(made_study.study)
    again = Receipt.from_json(receipt.to_json())
    assert again == receipt
    again.verify(made_study.study)


def test_another_study(receipt: Receipt, make_study: Callable[..., Any]) -> None:
    with pytest.raises(VerificationError, match="another study"):
        receipt.verify(make_study(label="another").study)


@pytest.mark.parametrize("kept", [(0, 1), (0, 1, 2, 2), (1, 0, 2), ()])
def test_one_signature_of_each_in_order(receipt: Receipt, made_study: Any, kept: tuple[int, ...]) -> None:
    changed = replace(receipt, providers=tuple(receipt.providers[i] for i in kept))
    with pytest.raises(VerificationError, match="one signature of each"):
        changed.verify(made_study.study)


@pytest.mark.parametrize(
    "change",
    [
        {"sealed_hash": bytes(32)},
        {"receive_time_ms": 5},
        {"signature": bytes(64)},
        {"signature": b""},
        {"receive_time_ms": -1},
        {"receive_time_ms": 1 << 63},
    ],
)
def test_any_change_is_noticed_and_named(receipt: Receipt, made_study: Any, change: dict[str, Any]) -> None:
    first, second, third = receipt.providers
    changed = replace(receipt, providers=(first, replace(second, **change), third))
    with pytest.raises(VerificationError, match="R2"):
        changed.verify(made_study.study)


def test_another_submission_id(receipt: Receipt, made_study: Any) -> None:
    with pytest.raises(VerificationError, match="R1"):
        replace(receipt, submission_id=bytes(16)).verify(made_study.study)


def test_one_provider_cannot_sign_for_another(receipt: Receipt, made_study: Any) -> None:
    first, second, third = receipt.providers
    swapped = replace(receipt, providers=(replace(second, role="R1"), replace(first, role="R2"), third))
    with pytest.raises(VerificationError):
        swapped.verify(made_study.study)


def test_unreadable_receipts(receipt: Receipt) -> None:
    good = json.loads(receipt.to_json())
    broken: list[Any] = [
        [],
        3,
        {**good, "study_id": "zz"},
        {k: v for k, v in good.items() if k != "providers"},
    ]
    broken.append({**good, "providers": [{**good["providers"][0], "signature": "*"}]})
    broken.append({**good, "providers": [{**good["providers"][0], "receive_time_ms": "soon"}]})
    for data in broken:
        with pytest.raises(VerificationError, match="not a receipt"):
            Receipt.from_json(json.dumps(data))
    with pytest.raises(VerificationError, match="not a receipt"):
        Receipt.from_json("not json")

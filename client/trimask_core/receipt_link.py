"""A receipt as a link: what a camera reads from one screen and opens on another device, in the app or on the survey page.

Bytes rather than JSON, so that the code stays coarse enough for a camera; the survey page writes and reads the same
(client/web/page/receipt_link.js). As with invitations everything secret is after the #, which browsers send to nobody:
https://HOST/s/SHORT#receipt.CODE where the study has a page, else trimask://HOST:PORT/receipt/CODE, where the collector is.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace

from trimask_core.errors import VerificationError
from trimask_core.receipt import ProviderReceipt, Receipt
from trimask_core.study import Study
from trimask_core.web import short_code

__all__ = ["is_receipt", "page_of", "read_receipt", "receipt_link"]

_WEB, _APP = "#receipt.", "/receipt/"
_SCHEME = "trimask://"
_VERSION = b"\x01"
_STUDY, _SUBMISSION, _KEY, _HASH, _TIME, _SIGNATURE = 32, 16, 32, 32, 6, 64
_EACH = _HASH + _TIME + _SIGNATURE
_HEAD = len(_VERSION) + _STUDY + _SUBMISSION + _KEY


def receipt_link(study: Study, receipt: Receipt) -> str:
    """The link of a receipt with its withdrawal key; anybody who has it can withdraw."""
    if len(receipt.withdrawal_key) != _KEY:
        raise VerificationError("a receipt without its withdrawal key has no link; save or share its file")
    parts = (
        item.sealed_hash + item.receive_time_ms.to_bytes(_TIME, "big") + item.signature
        for item in receipt.providers
    )
    data = _VERSION + receipt.study_id + receipt.submission_id + receipt.withdrawal_key + b"".join(parts)
    code = base64.urlsafe_b64encode(data).decode().rstrip("=")
    if study.web is None:
        return f"{_SCHEME}{study.collector.address}{_APP}{code}"
    return f"{study.web.hosts[0]}/s/{short_code(study.id)}{_WEB}{code}"


def is_receipt(text: str) -> bool:
    """Whether this is meant as a receipt, as a file's text or as a link, rather than as an invitation."""
    text = text.strip()
    return text.startswith("{") or _WEB in text or (text.lower().startswith(_SCHEME) and _APP in text)


def page_of(text: str) -> str:
    """The page that a receipt's link opens, whose folder has the study (study.json); empty where it has none."""
    text = "".join(text.split())
    return text.partition(_WEB)[0].rstrip("/") if _WEB in text else ""


def read_receipt(text: str) -> Receipt:
    """A receipt from its file's text or its link; it is still to be verified. No `collector` if a page has the study."""
    text = text.strip()
    if text.startswith("{"):
        return Receipt.from_json(text)
    text = "".join(text.split())  # mail programs break long lines
    if _WEB in text:
        return _read_code(text.partition(_WEB)[2])
    if not text.lower().startswith(_SCHEME) or _APP not in text:
        raise VerificationError("this is not a receipt: give the file's text, or its link")
    address, _, code = text[len(_SCHEME) :].partition(_APP)
    return replace(_read_code(code), collector=address)


def _read_code(code: str) -> Receipt:
    try:
        data = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise VerificationError("this receipt has a character that does not belong in it") from None
    if data[:1] != _VERSION or len(data) <= _HEAD or (len(data) - _HEAD) % _EACH:
        raise VerificationError("this receipt is not whole")
    at = 1 + _STUDY
    study_id, submission_id = data[1:at], data[at : at + _SUBMISSION]
    providers = []
    for k, start in enumerate(range(_HEAD, len(data), _EACH), 1):
        time = start + _HASH
        signature = time + _TIME
        providers.append(
            ProviderReceipt(
                f"R{k}",
                data[start:time],
                int.from_bytes(data[time:signature], "big"),
                data[signature : start + _EACH],
            )
        )
    return Receipt(study_id, submission_id, tuple(providers), data[at + _SUBMISSION : _HEAD])

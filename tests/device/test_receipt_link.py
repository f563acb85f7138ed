"""A receipt as a link: the survey page and this client write and read the same bytes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trimask_client import Client, Endpoint
from trimask_core.basics.errors import VerificationError
from trimask_core.study.party import Web
from trimask_core.submit.submission import (
    Receipt,
    is_receipt,
    page_of,
    read_receipt,
    receipt_link,
    receipt_message,
)
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse

ROOT = Path(__file__).parents[2]
PAGE = """
import { Receipt, receiptLink, readReceiptFragment } from "./client/web/device/receipt.js";
const [json, link] = JSON.parse(process.argv[1]);
const read = readReceiptFragment(link.split("#")[1]);
console.log(JSON.stringify([receiptLink(link.split("#")[0], Receipt.fromJson(json)), read.toJson()]));
"""


class Signing:
    """Providers that sign."""

    def __init__(self, made: Any) -> None:
        self.made = made

    def call(self, endpoint: Endpoint, method: str, request: bytes, _timeout: float) -> bytes:
        if not method.endswith("/Submit"):
            return b""
        sent = SubmitRequest.FromString(request)
        message = receipt_message(sent.study_id, sent.submission_id, sent.sealed_component, 1_700_000_000_123)
        key = self.made.identities[endpoint.tls_name.split(".")[0].upper()]
        return SubmitResponse(
            receive_time_ms=1_700_000_000_123, signature=key.sign("receipt", message)
        ).SerializeToString()

    def close(self) -> None:
        """Nothing is open."""


def _receipt(made: Any, answers: Any) -> Receipt:
    client = Client(made.signed, transport=Signing(made))
    return client.send(client.prepare(answers))


def test_with_the_collector_where_there_is_no_page(made_study: Any, answers: Any) -> None:
    receipt = _receipt(made_study, answers)
    link = receipt_link(made_study.study, receipt)
    assert link.startswith(f"trimask://{made_study.study.collector.address}/receipt/")
    assert (is_receipt(link), page_of(link)) == (True, "")
    assert read_receipt(f"  {link[:80]}\n{link[80:]} ") == receipt  # as a mail program breaks it
    assert read_receipt(receipt.to_json()) == receipt
    with pytest.raises(VerificationError, match="without its withdrawal key"):
        receipt_link(made_study.study, receipt.shown)
    for broken in (
        link[:-3],
        link[:-1] + "!",
        link.replace("/receipt/A", "/receipt/B"),
        "trimask://x:1/join/A",
    ):
        with pytest.raises(VerificationError):
            read_receipt(broken)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing; `make system` installs it")
def test_the_page_reads_and_writes_the_same(made_study: Any, answers: Any) -> None:
    receipt, study = _receipt(made_study, answers), made_study.study
    # All that a link needs of a study with a page, whose nodes would have HTTPS too.
    paged: Any = SimpleNamespace(id=study.id, web=Web(("https://survey.example",), "0" * 64))
    link = receipt_link(paged, receipt)
    assert link.startswith("https://survey.example/s/")
    done = subprocess.run(
        ["node", "--input-type=module", "-e", PAGE, json.dumps([receipt.to_json(), link])],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    written, read = json.loads(done.stdout)
    assert written == link
    found = read_receipt(link)
    assert Receipt.from_json(read) == found
    found.verify(study)
    assert (found.withdrawal_key, found.providers) == (receipt.withdrawal_key, receipt.providers)

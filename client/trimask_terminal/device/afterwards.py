"""`trimask-client status|budget|receipt|withdraw`: the state of what was sent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from trimask_client.asking import submission_words
from trimask_client.disk import write_private
from trimask_client.entry import Entry
from trimask_client.fetch import fetch_of_receipt, fetch_study
from trimask_client.queue import Queue
from trimask_core.clock import SystemClock
from trimask_core.receipt import Receipt
from trimask_core.receipt_link import is_receipt, read_receipt, receipt_link
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_terminal.device.home import one_of
from trimask_terminal.exits import Exit
from trimask_terminal.options import print_json

__all__ = ["budget", "receipt", "status", "withdraw"]


def status(args: argparse.Namespace, queue: Queue) -> int:
    now_ms = SystemClock().now_ms()
    entries = queue.entries()
    drafts = [study_id for study_id in queue.studies() if queue.draft(study_id) is not None]
    asked = _asked(queue, entries) if args.ask else {}
    if args.json:
        data = {
            "studies": [_study_dict(queue.client(study_id).study) for study_id in queue.studies()],
            "drafts": [study_id.hex() for study_id in drafts],
            "submissions": [
                _entry_dict(entry, now_ms)
                | ({"asked": asked[entry.submission_id]} if entry.submission_id in asked else {})
                for entry in entries
            ],
        }
        print_json(data)
        return Exit.DONE
    for study_id in queue.studies():
        print(f"study {study_id.hex()[:12]}  {queue.client(study_id).study.title}")
        if study_id in drafts:
            print("  a draft, not sealed yet")
        for entry in entries:
            if entry.study_id == study_id:
                print(f"  {entry.submission_id.hex()}  {entry.words(now_ms)}")
                if entry.submission_id in asked:
                    print(f"    {submission_words(asked[entry.submission_id])}")
    for entry in entries:
        if not entry.study_id:
            print(f"{entry.submission_id.hex()}  {entry.words(now_ms)}")
    if not queue.studies():
        print("No study joined yet: `trimask-client join 'LINK'`, the link of your invitation.")
    return Exit.DONE


def _asked(queue: Queue, entries: Sequence[Entry]) -> dict[bytes, dict[str, str]]:
    """What right providers say of everything that was sent."""
    joined = set(queue.studies())
    return {
        entry.submission_id: queue.client(entry.study_id).ask(entry.receipt)
        for entry in entries
        if entry.state == "sent" and entry.receipt is not None and entry.study_id in joined
    }


def budget(args: argparse.Namespace, queue: Queue) -> int:
    client = queue.client(one_of(queue.studies(), args.study, "study"))
    spent = client.budget()
    if args.json:
        print_json(asdict(spent))
    else:
        print(spent.words())
    return Exit.DONE


def _study_dict(study: Study) -> dict[str, object]:
    return {"study_id": study.id.hex(), "title": study.title}


def _entry_dict(entry: Entry, now_ms: int) -> dict[str, object]:
    return {
        "submission_id": entry.submission_id.hex(),
        "study_id": entry.study_id.hex(),
        "state": entry.state,
        "received_by": list(entry.received_by),
        "providers": entry.providers,
        "attempts": entry.attempts,
        "next_attempt_ms": entry.next_ms,
        "withdrawn_by": list(entry.withdrawn_by),
        "why": entry.why,
        "words": entry.words(now_ms),
    }


def receipt(args: argparse.Namespace, queue: Queue) -> int:
    if args.verify is not None:
        receipt = Receipt.from_json(args.verify.read_text(encoding="utf-8"))
        if args.study is None:
            study = queue.client(receipt.study_id).study
        else:
            study = SignedStudy.from_json(args.study.read_text(encoding="utf-8")).verify()
        receipt.verify(study)
        print(
            f"Verified: {len(receipt.providers)} providers of “{study.title}” signed for {receipt.submission_id.hex()}."
        )
        return Exit.DONE
    if args.imported is not None:
        return _import_receipt(args, queue)
    sent = {entry.submission_id: entry.receipt for entry in queue.entries() if entry.receipt is not None}
    found = sent[one_of(tuple(sent), args.submission, "sent submission")]
    if args.shown:
        found = found.shown
    text = receipt_link(queue.client(found.study_id).study, found) if args.link else found.to_json()
    if args.out is None:
        print(text)
    else:
        write_private(args.out, text)
    return Exit.DONE


def _import_receipt(args: argparse.Namespace, queue: Queue) -> int:
    text = args.imported
    if not is_receipt(text):
        text = Path(text).read_text(encoding="utf-8")
    receipt = read_receipt(text)
    if args.study is not None:
        queue.join(SignedStudy.from_json(args.study.read_text(encoding="utf-8")), receipt.study_id)
    elif receipt.study_id not in queue.studies():
        queue.join(fetch_of_receipt(text, timeout_seconds=args.timeout), receipt.study_id)
    entry = queue.import_receipt(receipt)
    print(f"{entry.submission_id.hex()}  {entry.words(SystemClock().now_ms())}")
    return Exit.DONE


def withdraw(args: argparse.Namespace, queue: Queue) -> int:
    if args.receipt is not None:
        receipt = Receipt.from_json(args.receipt.read_text(encoding="utf-8"))
        if args.study is not None:
            queue.join(SignedStudy.from_json(args.study.read_text(encoding="utf-8")), receipt.study_id)
        elif receipt.study_id not in queue.studies() and receipt.collector:
            signed = fetch_study(receipt.collector, receipt.study_id, timeout_seconds=args.timeout)
            queue.join(signed, receipt.study_id)
        if not _sure(args, receipt.submission_id):
            return Exit.NO
        entry = queue.withdraw(receipt)
    else:
        ids = tuple(entry.submission_id for entry in queue.entries())
        found = one_of(ids, args.submission, "submission")
        if not _sure(args, found):
            return Exit.NO
        entry = queue.withdraw(found)
    print(f"{entry.submission_id.hex()}  {entry.words(SystemClock().now_ms())}")
    return Exit.DONE if entry.state == "withdrawn" else Exit.NO


def _sure(args: argparse.Namespace, submission_id: bytes) -> bool:
    """A person is asked, for nothing brings the answers back; a script is not."""
    if args.yes or not sys.stdin.isatty():
        return True
    asked = f"Withdraw {submission_id.hex()}? It cannot be undone, and you may not be able to answer again. [y/N] "
    if input(asked).strip().lower() in ("y", "yes"):
        return True
    print("Not withdrawn.")
    return False

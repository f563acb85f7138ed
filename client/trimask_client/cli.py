"""`trimask-client join|institutions|answer|send|status|budget|receipt|withdraw`: taking part from a shell or a script.

Exit status: 0 done, 1 something still waits or was refused, 2 the command could not be carried out.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from trimask_client.asking import submission_words
from trimask_client.client import Client
from trimask_client.disk import write_private
from trimask_client.entry import DONE as SETTLED
from trimask_client.entry import Entry
from trimask_client.fetch import fetch_linked, fetch_of_receipt, fetch_study
from trimask_client.queue import Queue
from trimask_client.record_store import device_key
from trimask_client.said import json_for_all, run_said, said_failure
from trimask_core.clock import SystemClock
from trimask_core.errors import ConfigError, StudyError, TrimaskError
from trimask_core.institutions import Directory, load_directories
from trimask_core.invitation import Link
from trimask_core.receipt import Receipt
from trimask_core.receipt_link import is_receipt, read_receipt, receipt_link
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study

__all__ = ["main"]

DONE, PENDING, FAILED = 0, 1, 2
FOLDER = "institutions"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; what went wrong is one line on stderr."""
    args = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace, Queue], int] = args.run
    try:
        home = _home(args)
        queue = Queue(
            home,
            device_key(home / "device.key"),
            timeout_seconds=args.timeout,
            institutions=load_directories(home / FOLDER),
            refuse_unknown=getattr(args, "known_only", False),
        )
        try:
            return run_said(lambda: run(args, queue), args)
        finally:
            queue.close()
    except TrimaskError as error:
        return _fail(args, str(error))
    except OSError as error:
        return _fail(args, f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return _fail(args, "interrupted; what was sealed is kept, and `send` goes on with it")


def _home(args: argparse.Namespace) -> Path:
    return Path(args.home or os.environ.get("TRIMASK_HOME") or Path.home() / ".trimask")


def _fail(args: argparse.Namespace, message: str) -> int:
    if args.json:
        said_failure(message, FAILED)
    print(f"trimask-client: {' '.join(message.split())}", file=sys.stderr)
    return FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trimask-client", description="Take part in a study without anybody ever holding your answers."
    )
    parser.add_argument("--home", help="folder of this device (default: $TRIMASK_HOME, or ~/.trimask)")
    parser.add_argument(
        "--timeout", type=float, default=15.0, help="seconds to wait for a provider (default: 15)"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    join = commands.add_parser("join", help="read an invitation's study, check it, keep it")
    join.add_argument(
        "study", help="the invitation's link (https://... or trimask://...), or the signed study's file"
    )
    join.add_argument(
        "--ca",
        metavar="FILE",
        help="authorities (PEM) the collector's certificate must come from, or 'system'; the link's hash checks the study "
        "in any case",
    )
    join.add_argument(
        "--tls-name", default="", help="with --ca: the name its certificate carries (default: the host's)"
    )
    join.add_argument("--id", help="the study id in the invitation; a study with another is refused")
    join.add_argument("--yes", action="store_true", help="do not ask for the id to be compared by eye")
    join.add_argument(
        "--known-only",
        action="store_true",
        help="refuse a study with an institution that no directory here names",
    )
    join.set_defaults(run=_join)

    known = commands.add_parser(
        "institutions", help="the directories by which this device knows institutions"
    )
    known.add_argument(
        "add", nargs="?", type=Path, metavar="FILE", help="a directory to add, institutions.json"
    )
    known.add_argument(
        "--keeper", metavar="KEY", help="with FILE: the keeper's key it must be signed with, 64 digits"
    )
    known.add_argument(
        "--yes", action="store_true", help="do not ask for the keeper's key to be compared by eye"
    )
    known.set_defaults(run=_known)

    answer = commands.add_parser("answer", help="mask, split and seal answers; they wait to be sent")
    answer.add_argument(
        "answers",
        nargs="*",
        metavar="NAME=VALUE",
        help="by question if the study has a form, else by attribute; several choices as 'NAME=a b', dates as 2001-12-31",
    )
    answer.add_argument("--file", type=Path, help="a JSON object of answers, or - for standard input")
    answer.add_argument("--study", default="", help="the first digits of a study id, if several are joined")
    answer.add_argument("--again", action="store_true", help="answer a study a second time")
    answer.add_argument("--send", action="store_true", help="and send at once")
    answer.set_defaults(run=_answer)

    send = commands.add_parser("send", help="send what waits and is due")
    send.add_argument("--now", action="store_true", help="do not wait for the time of the next attempt")
    send.set_defaults(run=_send)

    status = commands.add_parser("status", help="what was sent, what waits, why, and what happens next")
    status.add_argument("--json", action="store_true", help="for programs")
    status.add_argument(
        "--ask",
        action="store_true",
        help="ask right providers whether what was sent was refused by their check since",
    )
    status.set_defaults(run=_status)

    budget = commands.add_parser(
        "budget", help="what was asked of a study so far, at what cost, and what is left"
    )
    budget.add_argument("--study", default="", help="the first digits of a study id, if several are joined")
    budget.add_argument("--json", action="store_true", help="for programs")
    budget.set_defaults(run=_budget)

    receipt = commands.add_parser("receipt", help="show, save or verify a receipt")
    receipt.add_argument("submission", nargs="?", default="", help="the first digits of a submission id")
    receipt.add_argument("--out", type=Path, help="write it to a file that only you can read")
    receipt.add_argument(
        "--link",
        action="store_true",
        help="as a link that the app or the study's page opens on another device; it can withdraw",
    )
    receipt.add_argument(
        "--import",
        dest="imported",
        metavar="RECEIPT",
        help="keep a receipt made on another device: its file or its link",
    )
    receipt.add_argument(
        "--verify", type=Path, metavar="RECEIPT", help="check the signatures of a saved receipt"
    )
    receipt.add_argument(
        "--study", type=Path, help="with --verify or --import: the signed study (default: a joined one)"
    )
    receipt.add_argument(
        "--shown", action="store_true", help="without the key that withdraws it: a copy to show to others"
    )
    receipt.set_defaults(run=_receipt)

    withdraw = commands.add_parser(
        "withdraw", help="have a submission erased at every provider, while that is possible"
    )
    withdraw.add_argument("submission", nargs="?", default="", help="the first digits of a submission id")
    withdraw.add_argument("--receipt", type=Path, help="a receipt kept from this or another device")
    withdraw.add_argument(
        "--study", type=Path, help="with --receipt: the signed study, if it is not joined here"
    )
    withdraw.set_defaults(run=_withdraw)
    json_for_all(commands.choices)
    return parser


def _join(args: argparse.Namespace, queue: Queue) -> int:
    link = Link.parse(args.study) if Link.looks_like_one(args.study) else None
    if link is None:
        signed = SignedStudy.from_json(Path(args.study).read_text(encoding="utf-8"))
    else:
        roots = None if args.ca is None else "" if args.ca == "system" else Path(args.ca).read_text("ascii")
        signed = fetch_linked(link, roots=roots, tls_name=args.tls_name, timeout_seconds=args.timeout)
    study_id = args.id if link is None else link.study_id
    known = load_directories(_home(args) / FOLDER)
    with Client(signed, study_id=study_id, institutions=known, refuse_unknown=args.known_only) as client:
        print(client.explain())
    if study_id is None and not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "give --id with the study id of your invitation, or --yes if you have compared it"
            )
        if input("\nIs this the id in your invitation? [y/N] ").strip().lower() not in ("y", "yes"):
            raise StudyError("not joined")
    invited = {} if link is None or link.invitation is None else {"invitation": link.invitation}
    joined = queue.join(signed, study_id, **invited)
    print(f"\nJoined {joined.hex()[:12]}.")
    return DONE


def _known(args: argparse.Namespace, _queue: Queue) -> int:
    folder = _home(args) / FOLDER
    if args.add is not None:
        book = Directory.from_json(args.add.read_text(encoding="utf-8"))
        print(f"Kept by {book.keeper}, key {book.keeper_key.hex()}; {len(book.institutions)} institutions.")
        if args.keeper is not None:
            book.verify(bytes.fromhex(args.keeper))
        elif not args.yes:
            if not sys.stdin.isatty():
                raise ConfigError(
                    "give --keeper with the key its keeper tells you, or --yes if you have compared it"
                )
            if input("Is this the key its keeper tells you? [y/N] ").strip().lower() not in ("y", "yes"):
                raise ConfigError("not added")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / f"{book.keeper_key.hex()[:16]}.json").write_text(book.to_json(), encoding="utf-8")
    books = load_directories(folder)
    for book in books:
        print(f"{book.keeper} ({book.keeper_key.hex()[:16]})")
        for item in book.institutions:
            print(f"  {item.identity.hex()[:16]}  {item.name}  {item.contact}".rstrip())
    if not books:
        print(
            "No directory yet: every institution is shown as not known. `trimask-client institutions FILE` adds one."
        )
    return DONE


def _answer(args: argparse.Namespace, queue: Queue) -> int:
    client = queue.client(_one(queue.studies(), args.study, "study"))
    queue.check_open(client.study.id, again=args.again)
    queue.refresh_keys(client.study.id)  # the newest, if the network is there; else those at hand
    answers, form = _answers(args), client.study.form
    if form is not None:  # what was asked becomes what is sent as the form says, here as in any app
        answers = dict(form.answers(answers))
    entry = queue.seal(client.study.id, answers, again=args.again)
    print(f"Sealed as {entry.submission_id.hex()}. {entry.words(SystemClock().now_ms())}")
    return _send(argparse.Namespace(now=True), queue) if args.send else DONE


def _answers(args: argparse.Namespace) -> dict[str, object]:
    answers: dict[str, object] = {}
    if args.file is not None:
        text = sys.stdin.read() if str(args.file) == "-" else args.file.read_text(encoding="utf-8")
        try:
            answers = dict(json.loads(text))
        except (ValueError, TypeError):
            raise ConfigError(f"{args.file} is not a JSON object of answers") from None
    for item in args.answers:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError("answers are NAME=VALUE, or --file with a JSON object")
        answers[name] = value
    return answers


def _send(args: argparse.Namespace, queue: Queue) -> int:
    tried = queue.send(now=args.now)
    now_ms = SystemClock().now_ms()
    for entry in tried:
        print(f"{entry.submission_id.hex()}  {entry.words(now_ms)}")
    left = [entry for entry in queue.entries() if entry.state not in SETTLED]
    if not tried:
        print("Nothing is due; `status` says what waits." if left else "Nothing waits to be sent.")
    return PENDING if left else DONE


def _status(args: argparse.Namespace, queue: Queue) -> int:
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
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return DONE
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
    return DONE


def _asked(queue: Queue, entries: Sequence[Entry]) -> dict[bytes, dict[str, str]]:
    """What right providers say of everything that was sent."""
    joined = set(queue.studies())
    return {
        entry.submission_id: queue.client(entry.study_id).ask(entry.receipt)
        for entry in entries
        if entry.state == "sent" and entry.receipt is not None and entry.study_id in joined
    }


def _budget(args: argparse.Namespace, queue: Queue) -> int:
    client = queue.client(_one(queue.studies(), args.study, "study"))
    spent = client.budget()
    print(json.dumps(asdict(spent), indent=1) if args.json else spent.words())
    return DONE


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


def _receipt(args: argparse.Namespace, queue: Queue) -> int:
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
        return DONE
    if args.imported is not None:
        return _import_receipt(args, queue)
    sent = {entry.submission_id: entry.receipt for entry in queue.entries() if entry.receipt is not None}
    found = sent[_one(tuple(sent), args.submission, "sent submission")]
    if args.shown:
        found = found.shown
    text = receipt_link(queue.client(found.study_id).study, found) if args.link else found.to_json()
    if args.out is None:
        print(text)
    else:
        write_private(args.out, text)
    return DONE


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
    return DONE


def _withdraw(args: argparse.Namespace, queue: Queue) -> int:
    if args.receipt is not None:
        receipt = Receipt.from_json(args.receipt.read_text(encoding="utf-8"))
        if args.study is not None:
            queue.join(SignedStudy.from_json(args.study.read_text(encoding="utf-8")), receipt.study_id)
        elif receipt.study_id not in queue.studies() and receipt.collector:
            signed = fetch_study(receipt.collector, receipt.study_id, timeout_seconds=args.timeout)
            queue.join(signed, receipt.study_id)
        entry = queue.withdraw(receipt)
    else:
        ids = tuple(entry.submission_id for entry in queue.entries())
        entry = queue.withdraw(_one(ids, args.submission, "submission"))
    print(f"{entry.submission_id.hex()}  {entry.words(SystemClock().now_ms())}")
    return DONE if entry.state == "withdrawn" else PENDING


def _one(ids: Sequence[bytes], digits: str, what: str) -> bytes:
    found = [item for item in ids if item.hex().startswith(digits.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigError(f"this device has no {what}{f' that begins {digits}' if digits else ''}")
    raise ConfigError(f"{len(found)} of this device's {what} ids fit; give more digits")

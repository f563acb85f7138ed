"""`trimask-client join|institutions|answer|send|status|budget|receipt|withdraw`: from an invitation to what became of it;
and `send-table`, for an institution that has many people's answers.

A device that takes part from a shell has a folder, in which the first digits of an id say what a person means.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path

from trimask_client.client import Client
from trimask_client.fetch import fetch_linked, fetch_of_receipt, fetch_study
from trimask_client.queue import Queue
from trimask_client.queue_entry import DONE as SETTLED
from trimask_client.queue_entry import Entry
from trimask_client.records import device_key, write_private
from trimask_client.submission_status import submission_words
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import AnswerError, ConfigError, Refused, StudyError
from trimask_core.form.form import Eligibility, Form
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.institutions import Directory, load_directories
from trimask_core.submit.invitation import Invitation, Link
from trimask_core.submit.submission import Receipt, is_receipt, read_receipt, receipt_link
from trimask_terminal.exits import Exit, NothingThere
from trimask_terminal.options import confirmed, print_json
from trimask_terminal.running import made


def _home(args: argparse.Namespace) -> Path:
    return Path(args.home or os.environ.get("TRIMASK_HOME") or Path.home() / ".trimask")


def directories_folder(args: argparse.Namespace) -> Path:
    """Where the directories are by which this device knows institutions."""
    return _home(args) / "institutions"


@contextmanager
def _opened(args: argparse.Namespace) -> Iterator[Queue]:
    home = _home(args)
    queue = Queue(
        home,
        device_key(home / "device.key"),
        timeout_seconds=args.timeout,
        institutions=load_directories(directories_folder(args)),
        refuse_unknown=getattr(args, "known_only", False),
    )
    try:
        yield queue
    finally:
        queue.close()


def with_queue(command: Callable[[argparse.Namespace, Queue], int]) -> Callable[[argparse.Namespace], int]:
    """A command that is given the device's queue, as the program runs it."""

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            with _opened(args) as queue:
                return command(args, queue)
        except KeyboardInterrupt:
            print(
                "trimask-client: interrupted; what was sealed is kept, and `send` goes on with it",
                file=sys.stderr,
            )
            raise

    return run


def one_of(ids: Sequence[bytes], digits: str, what: str) -> bytes:
    """The one id that begins with these digits."""
    found = [item for item in ids if item.hex().startswith(digits.lower())]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NothingThere(f"this device has no {what}{f' that begins {digits}' if digits else ''}")
    raise ConfigError(f"{len(found)} of this device's {what} ids fit; give more digits")


def join(args: argparse.Namespace, queue: Queue) -> int:
    link = Link.parse(args.study) if Link.looks_like_one(args.study) else None
    if link is None:
        signed = SignedStudy.from_json(Path(args.study).read_text(encoding="utf-8"))
    else:
        roots = None if args.ca is None else "" if args.ca == "system" else Path(args.ca).read_text("ascii")
        signed = fetch_linked(link, roots=roots, tls_name=args.tls_name, timeout_seconds=args.timeout)
    study_id = args.id if link is None else link.study_id
    known = load_directories(directories_folder(args))
    with Client(signed, study_id=study_id, institutions=known, refuse_unknown=args.known_only) as client:
        print(client.explain())
    if study_id is None and not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "give --id with the study id of your invitation, or --yes if you have compared it"
            )
        if not confirmed("\nIs this the id in your invitation?"):
            raise StudyError("not joined")
    invited = {} if link is None or link.invitation is None else {"invitation": link.invitation}
    joined = queue.join(signed, study_id, **invited)
    print(f"\nJoined {joined.hex()[:12]}.")
    return Exit.DONE


def institutions(args: argparse.Namespace, _queue: Queue) -> int:
    folder = directories_folder(args)
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
            if not confirmed("Is this the key its keeper tells you?"):
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
    return Exit.DONE


def answer(args: argparse.Namespace, queue: Queue) -> int:
    client = queue.client(one_of(queue.studies(), args.study, "study"))
    queue.check_open(client.study.id, again=args.again)
    queue.refresh_keys(client.study.id)  # the newest, if there is a network; otherwise those stored
    answers, form = _answers(args), client.study.form
    asked = [attribute.name for attribute in client.study.schema.attributes]
    if form is not None:
        asked = [part.name for part in (*(item.question for item in form.eligibility), *form.parts)]
    _refuse_unasked(answers, asked)
    if form is not None:  # what was asked becomes what is sent as the form says, here as in any app
        filled = _filled(form, answers)
        _agreed(args, form, answers)
        answers = filled
    entry = queue.seal(client.study.id, answers, again=args.again)
    print(f"Sealed as {entry.submission_id.hex()}. {entry.words(SystemClock().now_ms())}")
    return send(argparse.Namespace(now=True), queue) if args.send else Exit.DONE


def _refuse_unasked(answers: dict[str, object], asked: list[str]) -> None:
    unknown = sorted(set(answers) - set(asked))
    if unknown:
        raise ConfigError(f"{unknown[0]}: this study does not ask that; it asks: {', '.join(asked)}")


def _agreed(args: argparse.Namespace, form: Form, answers: dict[str, object]) -> None:
    """Show who may take part and the consent, and have the person agree, here or by --agree; `StudyError` if not."""
    language = form.language(os.environ.get("LANG"))
    for item in form.eligibility:
        given = answers.get(item.question.name)
        if given is not None and not item.met(item.asked.check(given, language)):
            raise StudyError(
                f"{item.question.name}: with this answer you cannot take part; nothing was sealed"
            )
    consent = form.consent(language)
    if consent is None and not form.eligibility:
        return
    for item in form.eligibility:
        print(f"You can take part if: {item.question.label[language]} {_wanted(item)}")
    if consent is not None:
        print(f"\n{consent.text}\n\n(consent, version {consent.version})")
    if args.agree:
        return
    if args.json or not sys.stdin.isatty():
        raise ConfigError(
            "this study asks for consent: run `answer` in a terminal to read it and agree, or give --agree if the "
            "person has read it, agrees and may take part"
        )
    if not confirmed("\nDo you agree, and may you take part?"):
        raise StudyError("not agreed to; nothing was sealed")


def _wanted(item: Eligibility) -> str:
    """The answers with which a person may take part."""
    if item.question.kind == "yes_no":
        return "(yes)" if item.eligible else "(no)"
    low, high = item.question.minimum, item.question.maximum
    bounds = [] if low is None else [f"at least {low:g}"]
    return f"({', '.join(bounds if high is None else [*bounds, f'at most {high:g}'])})"


def _filled(form: Form, answers: dict[str, object]) -> dict[str, object]:
    """What is sent; nobody sees the form here, so what is wrong with a choice comes with those there are."""
    try:
        return dict(form.answers(answers))
    except AnswerError as error:
        question = next((part for part in form.parts if part.name == error.attribute), None)
        if question is None or not question.choices:
            raise
        offered = ", ".join(choice.value for choice in question.choices)
        raise AnswerError(error.attribute, f"{error.problem} ({offered})") from None


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


def send(args: argparse.Namespace, queue: Queue) -> int:
    tried = queue.send(now=args.now)
    now_ms = SystemClock().now_ms()
    for entry in tried:
        print(f"{entry.submission_id.hex()}  {entry.words(now_ms)}")
    left = [entry for entry in queue.entries() if entry.state not in SETTLED]
    if not tried:
        print("Nothing is due; `status` says what waits." if left else "Nothing waits to be sent.")
    return Exit.NO if left else Exit.DONE


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
    asked = f"Withdraw {submission_id.hex()}? It cannot be undone, and you may not be able to answer again."
    if confirmed(asked):
        return True
    print("Not withdrawn.")
    return False


_TABLE_WORDS = """\
You have these people's answers in a file, and go on having them. What leaves this machine is what each person's
own device would send: {kinds}
No right provider is given the answers, nor is the collector. The study's status says that an institution
submitted these people."""
_KINDS = {
    "rows": "a row with noise and a mask, split among right providers.",
    "moments": "a report split among right providers.",
}


def send_table(args: argparse.Namespace) -> int:
    """Submit everybody in a table. After a crash the same command goes on, with the same bytes."""
    from trimask_client.gateway import RECEIPTS_FILE, REFUSED_FILE, Gateway
    from trimask_client.table import read_people

    folder = args.out or args.table.with_suffix(".sent")
    with Gateway(args.study, study_id=args.id, folder=folder, timeout_seconds=args.timeout) as gateway:
        study = gateway.study
        people = read_people(args.table, study.schema, study.form)
        invitations = _invitations(args.invitations) if args.invitations else ()
        print(_TABLE_WORDS.format(kinds=_KINDS[study.suite.name]))
        consent = study.form and study.form.consent(study.form.language(os.environ.get("LANG")))
        if consent:
            print(f"\n{consent.text}\n\n(consent, version {consent.version})")
        if not args.agree:
            if args.json or not sys.stdin.isatty():
                raise ConfigError("give --agree if all people in the table have agreed to take part")
            if not confirmed("\nHave they all agreed to take part?"):
                raise StudyError("not agreed to; nothing was sent")
        if people.unused:
            print(f"Not asked by the study, so left out: {', '.join(people.unused)}", file=sys.stderr)
        places = {line: place for place, line in enumerate(people.lines, 1)}
        refused, accepted = list[tuple[int, Refused]](), 0
        for line, outcome in gateway.submit_many(people.answers, invitations, people.lines):
            if isinstance(outcome, Refused):
                refused.append((line, outcome))
            else:
                accepted += 1
            if sys.stderr.isatty() and (places[line] % 64 == 0 or places[line] == len(places)):
                print(_bar(places[line], len(places)), end="", file=sys.stderr, flush=True)
    for line, refusal in refused[:_LISTED]:
        print(f"line {line}: {refusal.reason}: {refusal}", file=sys.stderr)
    if len(refused) > _LISTED:
        print(f"and {len(refused) - _LISTED} more", file=sys.stderr)
    made(folder=str(folder), accepted=accepted, refused=dict(Counter(str(one.reason) for _, one in refused)))
    began = (
        f", {len(places) - accepted - len(refused):,} before" if accepted + len(refused) < len(places) else ""
    )
    print(
        f"\n{accepted:,} accepted, {len(refused):,} refused{began}. Receipts, a link a person: {folder / RECEIPTS_FILE}\n"
        "Whoever has one can withdraw that submission: hand each to its person, or keep the file as you keep the table."
    )
    if refused:
        print(f"Who was refused, and why, is in {folder / REFUSED_FILE}.")
    return Exit.NO if refused else Exit.DONE


_LISTED = 20
_BAR = 40


def _bar(done: int, people: int) -> str:
    filled = _BAR * done // people
    end = "\n" if done == people else ""
    return f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {done:,} of {people:,}{end}"


def _invitations(path: Path) -> Iterator[Invitation]:
    """From a file with a link a line, or a table with a column `link`, as `trimask study invitations` writes them."""
    for number, cells in enumerate(csv.reader(path.read_text(encoding="utf-8").splitlines()), 1):
        link = next((cell for cell in cells if Link.looks_like_one(cell)), None)
        invitation = None if link is None else Link.parse(link).invitation
        if invitation is not None:
            yield invitation
        elif number > 1 and any(cells):
            raise ConfigError(f"{path}, line {number}: there is no invitation in it")

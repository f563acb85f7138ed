"""`trimask-client join|institutions|answer|send`: from an invitation to what is sent."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from trimask_client.client import Client
from trimask_client.entry import DONE as SETTLED
from trimask_client.fetch import fetch_linked
from trimask_client.queue import Queue
from trimask_core.clock import SystemClock
from trimask_core.errors import AnswerError, ConfigError, StudyError
from trimask_core.form import Eligibility, Form
from trimask_core.institutions import Directory, load_directories
from trimask_core.invitation import Link
from trimask_core.signed_study import SignedStudy
from trimask_terminal.device.home import directories_folder, one_of
from trimask_terminal.exits import Exit

__all__ = ["answer", "institutions", "join", "send"]


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
        if input("\nIs this the id in your invitation? [y/N] ").strip().lower() not in ("y", "yes"):
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
    if input("\nDo you agree, and may you take part? [y/N] ").strip().lower() not in ("y", "yes"):
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

"""`trimask study propose|approvals|open|close|abandon`. The last three cannot be undone, so each first says what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from trimask_core.basics.errors import ConfigError
from trimask_terminal.options import (
    Subparsers,
    add_json,
    at_least_one,
    confirmed,
    moment_ms,
    print_json,
    shown_time,
)

if TYPE_CHECKING:
    from trimask.data.connection import StudyStatus
    from trimask_core.study.definition import Study
    from trimask_core.study.progress import Closing


T = TypeVar("T")
_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.25
_LOOKS = 8
_DONE, _STAYS_OPEN = 0, 1


def add_owner_options(parser: argparse.ArgumentParser) -> None:
    """STUDY.json, --owner and --json."""
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    parser.add_argument("--owner", type=Path, metavar="DIR", help="the owner's folder of keys")
    add_json(parser)


def owner_folder(args: argparse.Namespace) -> Path:
    """The folder that --owner gives; an error without it."""
    if args.owner is None:
        raise ConfigError("give --owner DIR, the owner's folder of keys")
    found: Path = args.owner
    return found


def register_in(commands: Subparsers) -> None:
    """Add them to the commands of `trimask study`."""
    propose = commands.add_parser(
        "propose", help="send a study to every node's operator, through the collector"
    )
    add_owner_options(propose)
    propose.set_defaults(run=run_propose)

    approvals = commands.add_parser("approvals", help="gather what operators decided into the study's file")
    add_owner_options(approvals)
    approvals.set_defaults(run=run_approvals)

    opened = commands.add_parser(
        "open",
        help="send an approved study to the nodes; devices may then submit",
        description="Send an approved study to its nodes, and write the copy for devices. A study that was closed cannot be "
        "opened again.",
    )
    _arguments(opened)
    opened.add_argument(
        "--wait",
        type=float,
        nargs="?",
        const=_WAIT_SECONDS,
        default=0.0,
        metavar="SECONDS",
        help=f"wait for nodes that do not answer yet: they take a moment to start (--wait alone: {_WAIT_SECONDS:.0f})",
    )
    opened.add_argument(
        "--at",
        type=moment_ms,
        metavar="TIME",
        help="open by itself at this time, such as 2027-01-31T08:00 (UTC); until then the collector alone has it, and "
        "another `open` takes its place",
    )
    add_json(opened)
    opened.set_defaults(run=run_open)

    close = commands.add_parser(
        "close",
        help="end collection: publish what is enough, erase the rest, after asking",
        description="Say what closing does (what is published, what is erased and why), ask, and close. Intake pauses and "
        "what is there is counted: if by then less would be published and more erased than was said, the study stays open. "
        "Exit status: 0 it closes, 1 it stays open, 2 it could not be asked. With --dry-run: 0 nothing complete would be "
        "erased, 1 something would.",
    )
    _arguments(close)
    close.add_argument(
        "--yes", action="store_true", help="do not ask, also if people's submissions are erased"
    )
    close.add_argument(
        "--erase", action="store_true", help="close also if what is counted then must be erased"
    )
    close.add_argument(
        "--at",
        type=moment_ms,
        metavar="TIME",
        help="close by itself at this time, such as 2027-01-31T18:00 (UTC), whatever that erases; the last order counts",
    )
    close.add_argument(
        "--at-people",
        type=at_least_one,
        metavar="N",
        help="close by itself once N people have taken part, as each right provider counts for itself; with --at, whichever "
        "is first",
    )
    close.add_argument("--dry-run", action="store_true", help="say what would happen, and do nothing")
    add_json(close)
    close.set_defaults(run=run_close)

    abandon = commands.add_parser(
        "abandon",
        help="give a block up that cannot be masked: its rows are erased, after asking",
        description="Say how a block is, by the id that `trimask study status` names (its first 8 digits are enough), ask, "
        "and give it up. Every right provider erases its rows, and nothing of them is in a release; other blocks go on. One "
        "that has not failed is not given up without --healthy. Exit status: 0 given up, 1 not, 2 it could not be asked.",
    )
    abandon.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    abandon.add_argument(
        "block",
        type=_block,
        metavar="BLOCK",
        help="the block's id, or how it begins; release-N, for a release of the moments suite that waits; or draw-N, for a "
        "draw of the rows suite that does not come to its end, with every row in it",
    )
    abandon.add_argument(
        "--owner", type=Path, required=True, metavar="DIR", help="the owner's folder of keys"
    )
    abandon.add_argument("--yes", action="store_true", help="do not ask")
    abandon.add_argument("--healthy", action="store_true", help="also if nothing is wrong with it")
    add_json(abandon)
    abandon.set_defaults(run=run_abandon)


def _block(text: str) -> bytes | tuple[str, int]:
    """A block's id, or the number of a release or a draw."""
    word, dash, number = text.partition("-")
    if word in ("release", "draw") and dash and number.isdecimal():
        return word, int(number)
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither how a block's id begins (an even number of hexadecimal digits) nor release-N nor draw-N"
        ) from None


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    parser.add_argument("--owner", type=Path, required=True, metavar="DIR", help="the owner's folder of keys")


def run_open(args: argparse.Namespace) -> int:
    """Hand the study to the collector."""
    from trimask_cli import owner, study_file
    from trimask_core.study.party import read_secret

    signed = study_file.read_signed(args.study)
    if signed.missing:
        signed = _once_up(lambda: owner.gather_missing(args.study, signed, args.owner), args.wait)
    signed.verify()
    for_devices = signed
    if signed.needs_seed:
        for_devices = signed.with_seed(read_secret(study_file.seed_file(args.study)))
    open_ms = 0 if args.at is None else args.at
    _once_up(lambda: owner.open_study(for_devices, args.owner, open_ms), args.wait)
    device_file = study_file.device_file(args.study)
    study_file.write_signed(device_file, for_devices, replace=True)
    if args.json:
        print_json(
            {
                "study_id": signed.study.id.hex(),
                "state": "scheduled" if open_ms else "open",
                "opens_ms": open_ms or None,
                "device_file": str(device_file),
            }
        )
        return _DONE
    if open_ms:
        print(
            f"Opens by itself on {shown_time(open_ms)}: study {signed.study.id.hex()}; for devices: {device_file}"
        )
        return _DONE
    print(f"Open: devices may submit to study {signed.study.id.hex()}; give them {device_file}")
    if signed.study.web is not None:
        from trimask_cli.invitations import open_link

        link = open_link(signed.study)
        print(f"For browsers: `trimask web export {device_file} --out site` writes what {link.page} shows.")
        if signed.study.admission == "open":
            print(f"The link for everybody: {link}")
    return _DONE


def _once_up(call: Callable[[], T], wait_seconds: float) -> T:
    """Retry a call while a node does not answer, up to a time limit; every call here may be repeated."""
    import time

    from trimask_core.basics.errors import ConnectionFailed, Refused
    from trimask_core.basics.refusals import Reason

    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            return call()
        except (ConnectionFailed, Refused) as error:
            away = isinstance(error, ConnectionFailed) or error.reason is Reason.UNREACHABLE
            if not away or time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECONDS)


def run_close(args: argparse.Namespace) -> int:
    """Explain what closing does, ask for confirmation, and end collection."""
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_core.study.progress import closing_of

    study = read_signed(args.study).study
    status, outcome = _foreseen(study)
    if status.state not in ("open", "paused"):
        if args.erase and args.yes:
            # A right provider restored from a backup may count fewer people than the number by which the study closed.
            owner.close_study(study, args.owner)
        if args.json:
            print_json({"study_id": study.id.hex(), "state": status.state})
        else:
            print(f"The study is {status.state} already. {status.note}".rstrip())
        return _DONE
    later = [] if args.at is None else [f"on {shown_time(args.at)}"]
    if args.at_people is not None:
        later.append(f"with {args.at_people:,} people")
        outcome = closing_of(study, pending=args.at_people, masking=0, pooled=0)
    if not args.json:
        print("\n".join(outcome.sentences))
    agreed = not args.dry_run and (args.yes or (not args.json and _agreed(outcome)))
    if agreed and later:
        owner.close_study(study, args.owner, close_ms=args.at or 0, people=args.at_people or 0)
        if args.json:
            print_json(
                {
                    "study_id": study.id.hex(),
                    "state": status.state,
                    "closes_ms": args.at,
                    "closes_at_people": args.at_people,
                }
            )
        else:
            print(f"Closes by itself {' or '.join(later)}{', whichever is first' if len(later) > 1 else ''}.")
        return _DONE
    if agreed:
        owner.close_study(study, args.owner, None if args.erase else outcome)
        status = _counted(study)
    _say(args, study, outcome, status, agreed=agreed)
    if args.dry_run:
        return _STAYS_OPEN if outcome.erased else _DONE
    return _DONE if agreed and status.state in ("closing", "closed") else _STAYS_OPEN


def run_abandon(args: argparse.Namespace) -> int:
    """Ask, and give a block up."""
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed

    study = read_signed(args.study).study
    kind, number = args.block if isinstance(args.block, tuple) else ("block", 0)
    name = f"{kind} {number}" if number else f"block {args.block.hex()}"
    if args.json and not args.yes:
        return _not_given_up(args, study, "(`--yes` does it without asking.)")

    def abandon(*, healthy: bool = False, look: bool = False) -> owner.Abandoned:
        if kind == "draw":
            return owner.abandon_draw(study, number, args.owner, healthy=healthy, look=look)
        return owner.abandon_block(study, number or args.block, args.owner, healthy=healthy, look=look)

    found = abandon(look=True)
    if not args.json:
        print(f"{found.state[:1].upper()}{found.state[1:]}.")
    if found.healthy and not args.healthy:
        said = "Nothing is wrong with it; `--healthy` gives it up all the same."
        return _not_given_up(args, study, said, found.state)
    if not args.yes and not confirmed(
        f"Give {name} up, and erase its {found.block.rows:,} rows at every right provider?"
    ):
        return _not_given_up(args, study, "(`--yes` does it without asking.)")
    block = abandon(healthy=args.healthy).block
    if args.json:
        print_json({"study_id": study.id.hex(), "block": block.id, "rows": block.rows, "why": block.why})
    else:
        print(
            f"{f'Block {block.id}' if block.id else name.capitalize()} is given up: "
            f"its {block.rows:,} rows are erased as soon as the right providers answer."
        )
    return _DONE


def _not_given_up(args: argparse.Namespace, study: Study, why: str, state: str = "") -> int:
    said = f"Nothing was done. {why}"
    if args.json:
        told = [state, said] if state else [said]
        print_json({"ok": False, "exit": _STAYS_OPEN, "study_id": study.id.hex(), "said": told})
    else:
        print(said)
    return _STAYS_OPEN


def _foreseen(study: Study) -> tuple[StudyStatus, Closing]:
    """What closing would do.

    The collector counts every half second, and blocks advance meanwhile: the number of submissions is used once it no
    longer changes, after a longer wait where some would be erased.
    """
    import time

    from trimask_cli import owner
    from trimask_core.study.progress import closing_of

    before = -1
    for _ in range(_LOOKS):
        status = owner.study_status(study)
        total = status.pending_rows + status.masking_rows + status.pooled_rows
        outcome = closing_of(
            study, pending=status.pending_rows, masking=status.masking_rows, pooled=status.pooled_rows
        )
        if status.state != "open" or total == before:
            break
        before = total
        time.sleep(1.0 if outcome.erased else _LOOK_SECONDS)
    return status, outcome


def _counted(study: Study) -> StudyStatus:
    """The study once what is there was counted; as it is after a while, if a node does not answer."""
    import time

    from trimask_cli import owner

    deadline = time.monotonic() + _WAIT_SECONDS
    while (status := owner.study_status(study)).state == "paused" and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)
    return status


def _agreed(outcome: Closing) -> bool:
    question = (
        f"Close, and erase {outcome.erased:,}? No: the study stays open and goes on collecting."
        if outcome.erased
        else "Close? It cannot be opened again."
    )
    return confirmed(question)


def _say(
    args: argparse.Namespace, study: Study, outcome: Closing, status: StudyStatus, *, agreed: bool
) -> None:
    if args.json:
        state = "closing" if agreed and status.state == "closed" else status.state
        note = {"note": status.note} if agreed and state != "closing" else {}
        print_json({"study_id": study.id.hex(), "state": state, "outcome": outcome.to_dict(), **note})
    elif agreed and status.state == "paused":
        print(
            "Not closed yet: intake is paused, and a right provider has not said what it holds. It closes, or goes on, when "
            f"it has; `trimask study status {args.study}` shows which."
        )
    elif agreed and status.state == "open":
        print(f"{status.note[:1].upper()}{status.note[1:]}.")
    elif agreed:
        print(f"Closing; `trimask study status {args.study} --watch` ends when everything is published.")
    elif args.dry_run:
        print("Nothing was done.")
    else:
        print("Not closed: the study stays open. (`--yes` closes without asking.)")


def run_propose(args: argparse.Namespace) -> int:
    """Send the study to every node's operator."""
    from trimask_cli import owner, study_file
    from trimask_terminal.study_view import make_console

    signed = study_file.read_signed(args.study)
    parties = owner.propose(signed, owner_folder(args))
    if args.json:
        print_json(owner.decisions(parties))
        return 0
    console = make_console()
    console.print(owner.render_decisions(signed, parties))
    console.print(
        f"\nOperators run `trimask node studies`, then `trimask node approve {signed.study.id.hex()[:12]}` (or refuse).\n"
        f"`trimask study approvals {args.study}` says what they decided.",
        soft_wrap=True,
    )
    return 0


def run_approvals(args: argparse.Namespace) -> int:
    """Gather the decisions; status 0 once every party has approved."""
    from trimask_cli import owner, study_file
    from trimask_terminal.study_view import make_console

    before = study_file.read_signed(args.study)
    signed, parties = owner.gather(before, owner_folder(args))
    if signed != before:
        study_file.write_signed(args.study, signed, replace=True)
    if args.json:
        print_json({"missing": list(signed.missing), "parties": owner.decisions(parties)})
    else:
        console = make_console()
        console.print(owner.render_decisions(signed, parties))
        missing = ", ".join(signed.missing)
        console.print(
            f"Still missing: {missing}." if missing else "Every party has approved; it can be opened."
        )
    return 1 if signed.missing else 0

"""`trimask release ask`: one private answer, for scripts. Each costs; the same --request-id again costs nothing.
`trimask release verify` checks one that was kept; `trimask study budget` and `trimask study end-releases` are of the ledger
of a study that gives private answers.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask.release.results import Answer
    from trimask_theory.moments.moments_question import QuestionKind


_COLUMNS: dict[str, Any] = {"nargs": "*", "metavar": "COLUMN", "help": "default: all"}
_ASKED: dict[str, Any] = {
    "nargs": "+", "metavar": "QUESTION", "help": "choices, yes-or-no questions, bins, thresholds",
}  # fmt: skip
_QUESTIONS: dict[str, tuple[str, dict[str, dict[str, Any]]]] = {
    "sum": ("sums of columns, in original units", {"columns": _COLUMNS}),
    "ols": (
        "least squares, with standard errors",
        {
            "formula": {
                "metavar": "FORMULA",
                "help": "'sbp ~ age + C(region)', or the response alone before its features",
            },
            "features": {
                "nargs": "*", "metavar": "FEATURE", "help": "columns; name `one` for an intercept",
            },
        },
    ),
    "gram": (
        "the Gram matrix of columns, with noise",
        {"columns": _COLUMNS | {"help": "or groups; name `one` for sums; default: all"}},
    ),
    "pca": (
        "principal components, about the mean, with errors",
        {"components": {"type": int, "metavar": "K"}, "columns": _COLUMNS},
    ),
    "table": ("counts of every combination of answers to questions", {"questions": _ASKED}),
    "histogram": ("counts of every answer, question by question", {"questions": _ASKED}),
    "group_means": (
        "means of a number by group",
        {"number": {"metavar": "NUMBER"}, "by": _ASKED | {"help": "what makes the groups"}},
    ),
}  # fmt: skip
"""Every question of `trimask.release`, and what its function takes, in its order."""


def register(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("release", help="ask for private answers from a study with a budget")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    ask = commands.add_parser(
        "ask",
        help="ask one question and pay for it",
        description="Ask one question. The price is taken from the study's budget for good; `trimask study budget` "
        "shows what is left. If the reply was lost, ask again with the --request-id the error names: it costs nothing.",
    )
    ask.add_argument(
        "study", type=Path, metavar="STUDY.json", help="the study; it pins the collector and the id"
    )
    kinds = ask.add_subparsers(title="questions", metavar="QUESTION", required=True, dest="question")
    for name, (words, asked) in _QUESTIONS.items():
        kind = kinds.add_parser(name, help=words)
        for argument, settings in asked.items():
            kind.add_argument(argument, **settings)
        _price(kind)
        kind.set_defaults(run=run)

    check = commands.add_parser(
        "verify",
        help="check an answer that was kept",
        description="Check that the study's collector signed an answer, and every right provider its part of it.",
    )
    check.add_argument("study", type=Path, metavar="STUDY.json", help="the study, as approved")
    check.add_argument("answer", type=Path, metavar="ANSWER.json", help="what `release ask --out` wrote")
    check.set_defaults(run=verify)


def _price(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--epsilon", type=float, metavar="E", help="pay with epsilon and delta")
    parser.add_argument("--delta", type=float, metavar="D")
    parser.add_argument("--mu", type=float, metavar="M", help="or pay with mu")
    parser.add_argument("--request-id", metavar="HEX", help="32 digits: ask again for an answer already paid")
    parser.add_argument("--owner", type=Path, required=True, metavar="DIR", help="the owner's folder of keys")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the signed answer as JSON")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Ask, and show or write what came."""
    import json

    import trimask
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError

    study = read_signed(args.study).verify()
    if args.out is not None and args.out.exists():
        # Before it is paid for: an answer that cannot be written is paid for nothing.
        raise ConfigError(f"{args.out} exists already; give another --out")
    party = study.collector
    with trimask.connect(
        party.peer_address,
        roots=study.tls_roots or None,
        tls_name=party.tls_name,
        certificate=(args.owner / "tls.pem", args.owner / "tls.key"),
    ) as connection:
        result = _ask(connection, study.id, args)
    document = _document(result.answer)
    if args.out is not None:
        args.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if args.json:
        print_json(document)
    else:
        print(result)
        print(
            f"request id {result.answer.request_id}{' (asked before, no further cost)' if result.answer.replayed else ''}"
        )
    return 0


def _ask(connection: Any, study_id: bytes, args: argparse.Namespace) -> Any:
    from trimask import release

    paid = {"epsilon": args.epsilon, "delta": args.delta, "mu": args.mu, "request_id": args.request_id}
    _, asked = _QUESTIONS[args.question]
    given = [getattr(args, name) or None if name == "features" else getattr(args, name) for name in asked]
    return getattr(release, args.question)(connection, study_id, *given, **paid)


def _document(answer: Answer) -> dict[str, Any]:
    """The answer for reading, with the exact bytes that the collector signed, for verification."""
    import json

    return {
        "answer": json.loads(answer.raw),
        "replayed": answer.replayed,
        "signed": answer.raw.decode(),
        "signature": answer.signature.hex(),
    }


def verify(args: argparse.Namespace) -> int:
    """Check an answer that was kept, and say who signed what."""
    from trimask.release.gathered import read_numbers
    from trimask.release.results import Answer
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.encoding import read_json
    from trimask_core.basics.errors import ConfigError

    study = read_signed(args.study).verify()
    try:
        kept = read_json(args.answer.read_text(encoding="utf-8"))
        raw, signature = str(kept["signed"]).encode(), bytes.fromhex(kept["signature"])
    except OSError as error:
        raise ConfigError(f"cannot read {args.answer}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{args.answer} is no answer of `trimask release ask --out`: {error}") from None
    answer = Answer.checked(study, raw, signature)
    print(f"{answer.mechanism} of {answer.rows} rows, request {answer.request_id}")
    print(f"signed by the collector ({study.collector.organisation})")
    kinds: dict[str, QuestionKind] = {"sum": "sums", "gram": "moments"}
    kind = kinds.get(answer.mechanism, cast("QuestionKind", answer.mechanism))
    read_numbers(study, answer, kind, answer.parameters["columns"], answer.cost)
    print(f"added up from what all {len(study.right)} right providers signed")
    return 0


def register_budget(commands: Subparsers) -> None:
    """Add both to the commands of `trimask study`."""
    budget = commands.add_parser(
        "budget", help="what was spent on private answers, on which, and what is left; anybody may ask"
    )
    budget.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    add_json(budget)
    budget.set_defaults(run=run_budget)

    end = commands.add_parser(
        "end-releases",
        help="end private answers before the budget is spent, and erase the data they come from",
        description="Every right provider's share of the totals that answers come from is erased permanently. Answers "
        "already given can still be fetched.",
    )
    end.add_argument("study", type=Path, metavar="STUDY.json", help="the study's file")
    end.add_argument("--owner", type=Path, required=True, metavar="DIR", help="the owner's folder of keys")
    end.add_argument("--yes", action="store_true", help="do not ask")
    end.set_defaults(run=run_end)


def run_budget(args: argparse.Namespace) -> int:
    """Ask the collector."""
    from trimask import release
    from trimask_cli import owner
    from trimask_cli.study_file import read_signed

    study = read_signed(args.study).verify()
    with owner.connected(study) as connection:
        status = release.budget(connection, study.id)
    if args.json:
        print_json({"study_id": study.id.hex(), **asdict(status)})
    else:
        print(status)
    return 0


def run_end(args: argparse.Namespace) -> int:
    """Close and erase."""
    import sys

    from trimask_cli import owner
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError
    from trimask_terminal.options import confirmed

    study = read_signed(args.study).verify()
    if not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                "what is erased does not come back: give --yes to end the answers of this study"
            )
        if not confirmed(f"No question about “{study.title}” can be asked after this, ever. End it?"):
            raise ConfigError("nothing was ended")
    owner.end_releases(study, args.owner)
    print(f"Ended: study {study.id.hex()}'s totals are erased; answers already given can still be fetched.")
    return 0

"""`trimask release ask`: one private answer, for scripts. Each costs; the same --request-id again costs nothing.
`trimask release verify` checks one that was kept."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask.release.answer import Answer
    from trimask_theory.moments.moments_question import QuestionKind


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
    mechanisms = ask.add_subparsers(title="questions", metavar="QUESTION", required=True, dest="question")

    total = mechanisms.add_parser("sum", help="sums of columns, in original units")
    total.add_argument("columns", nargs="*", metavar="COLUMN", help="default: all")

    ols = mechanisms.add_parser("ols", help="least squares, with standard errors")
    ols.add_argument(
        "formula",
        metavar="FORMULA",
        help="'sbp ~ age + C(region)', or the response alone before its features",
    )
    ols.add_argument("features", nargs="*", metavar="FEATURE", help="columns; name `one` for an intercept")

    gram = mechanisms.add_parser("gram", help="the Gram matrix of columns, with noise")
    gram.add_argument(
        "columns", nargs="*", metavar="COLUMN", help="or groups; name `one` for sums; default: all"
    )

    pca = mechanisms.add_parser("pca", help="principal components, about the mean, with errors")
    pca.add_argument("components", type=int, metavar="K")
    pca.add_argument("columns", nargs="*", metavar="COLUMN", help="default: all")

    table = mechanisms.add_parser("table", help="counts of every combination of answers to questions")
    histogram = mechanisms.add_parser("histogram", help="counts of every answer, question by question")
    for each in (table, histogram):
        each.add_argument(
            "questions", nargs="+", metavar="QUESTION", help="choices, yes-or-no questions, bins, thresholds"
        )

    means = mechanisms.add_parser("group_means", help="means of a number by group")
    means.add_argument("number", metavar="NUMBER")
    means.add_argument("by", nargs="+", metavar="QUESTION", help="what makes the groups")

    check = commands.add_parser(
        "verify",
        help="check an answer that was kept",
        description="Check that the study's collector signed an answer, and every right provider its part of it.",
    )
    check.add_argument("study", type=Path, metavar="STUDY.json", help="the study, as approved")
    check.add_argument("answer", type=Path, metavar="ANSWER.json", help="what `release ask --out` wrote")
    check.set_defaults(run=verify)

    for each in (total, ols, gram, pca, table, histogram, means):
        _price(each)
        each.set_defaults(run=run)


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
    if args.question == "sum":
        return release.sum(connection, study_id, args.columns, **paid)
    if args.question == "ols":
        return release.ols(connection, study_id, args.formula, args.features or None, **paid)
    if args.question == "gram":
        return release.gram(connection, study_id, args.columns, **paid)
    if args.question == "group_means":
        return release.group_means(connection, study_id, args.number, args.by, **paid)
    if args.question in ("table", "histogram"):
        return getattr(release, args.question)(connection, study_id, args.questions, **paid)
    return release.pca(connection, study_id, args.components, args.columns, **paid)


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
    from trimask.release.answer import Answer
    from trimask.release.gathered import read_numbers
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

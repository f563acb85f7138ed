"""`trimask receipt verify`: whether every right provider signed a person's receipt, and whether a release counts it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimask_terminal.options import Subparsers, add_json, print_json

if TYPE_CHECKING:
    from trimask.data.dataset import Dataset
    from trimask_core.study.definition import Study
    from trimask_core.submit.submission import Receipt


NOT_COUNTED = 1
"""The exit status where the receipt is good and no dataset that was given counts it."""


def register(subparsers: Subparsers) -> None:
    """Add the command and its own command."""
    parser = subparsers.add_parser("receipt", help="verify a participant's receipt")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    verify = commands.add_parser(
        "verify",
        help="check every signature of a receipt, and whether a release counts it",
        description="Check that each right provider of the study signed that its part of the submission was on its disk, "
        "and with --dataset whether a published release counts it. A receipt says nothing about what was answered.",
        epilog="Exit status: 0 the receipt is good, and counted if datasets are given; 1 it is good, and none of them "
        "counts it; 2 the receipt or a dataset does not verify, or cannot be read.",
    )
    verify.add_argument("receipt", type=Path, metavar="RECEIPT.json", help="the receipt")
    verify.add_argument("--study", type=Path, metavar="STUDY.json", help="the signed study it is for")
    verify.add_argument(
        "--dataset",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="releases of the study, as `trimask pull` saves them",
    )
    add_json(verify)
    verify.set_defaults(run=run_verify)


def run_verify(args: argparse.Namespace) -> int:
    """Verify, and say who signed when, and in which release the submission is."""
    from trimask_core.submit.submission import Receipt

    receipt = Receipt.from_json(args.receipt.read_text(encoding="utf-8"))
    datasets = _datasets(args.dataset, receipt)
    study = _study(args.study, datasets)
    receipt.verify(study)
    releases = _standings(receipt, datasets)
    counted = any(release["standing"] == "counted" for release in releases)
    if args.json:
        answer = {
            "verified": True,
            "study_id": receipt.study_id.hex(),
            "submission_id": receipt.submission_id.hex(),
            "providers": _signed(receipt, study),
            "can_withdraw": bool(receipt.withdrawal_key),
        }
        print_json(answer | ({"counted": counted, "releases": releases} if datasets else {}))
    else:
        _print(receipt, study, releases)
    return NOT_COUNTED if datasets and not counted else 0


def _datasets(folders: Sequence[Path], receipt: Receipt) -> list[Dataset]:
    """The datasets, verified; each must be of the receipt's study."""
    if not folders:
        return []
    from trimask.data.dataset import Dataset

    opened = {
        dataset.id: dataset
        for dataset in (Dataset.open(folder, study_id=receipt.study_id) for folder in folders)
    }
    return sorted(opened.values(), key=lambda dataset: dataset.manifest.release)


def _study(path: Path | None, datasets: Sequence[Dataset]) -> Study:
    """The study from its file, or else from a dataset's manifest: either way every party has signed it."""
    from trimask_cli.study_file import read_signed
    from trimask_core.basics.errors import ConfigError

    if path is not None:
        return read_signed(path).verify()
    if not datasets:
        raise ConfigError("give the signed study (--study STUDY.json), or datasets of it (--dataset FOLDER)")
    return datasets[0].study


def _standings(receipt: Receipt, datasets: Sequence[Dataset]) -> list[dict[str, Any]]:
    from trimask_core.basics.errors import VerificationError

    found = [
        {"dataset": item.id, "release": item.manifest.release, "standing": item.standing(receipt)}
        for item in datasets
    ]
    named = [str(item["dataset"]) for item in found if item["standing"] != "absent"]
    if len(named) > 1:
        raise VerificationError(f"the submission is in more than one release: {', '.join(named)}")
    return found


def _signed(receipt: Receipt, study: Study) -> list[dict[str, str]]:
    from datetime import UTC, datetime

    return [
        {
            "role": item.role,
            "organisation": study.party(item.role).organisation,
            "received": datetime.fromtimestamp(item.receive_time_ms / 1000, UTC).isoformat(
                timespec="seconds"
            ),
        }
        for item in receipt.providers
    ]


def _print(receipt: Receipt, study: Study, releases: Sequence[dict[str, Any]]) -> None:
    print(f"Verified: every right provider of “{study.title}” signed for {receipt.submission_id.hex()}.")
    for item in _signed(receipt, study):
        who = f" ({item['organisation']})" if item["organisation"] else ""
        print(f"  {item['role']}{who}  {item['received']}")
    if receipt.withdrawal_key:
        print(
            "It has its withdrawal key: anybody who has this file can withdraw the submission until it is pooled."
        )
    if releases:
        print(_verdict(study, releases))


def _verdict(study: Study, releases: Sequence[dict[str, Any]]) -> str:
    whose = (
        "as every right provider signed"
        if study.suite.name == "moments"
        else "by the collector's signed list; each right provider can check it against the blocks it masked"
    )
    for release in releases:
        if release["standing"] == "counted":
            return f"Counted in release {release['release']} ({release['dataset']}), {whose}."
        if release["standing"] == "refused":
            return (
                f"Not counted: in release {release['release']} ({release['dataset']}) the right providers' check refused "
                "it, because the answers it holds are not ones the study allows."
            )
    named = ", ".join(str(release["release"]) for release in releases)
    return (
        f"Not counted in release {named}, {whose}. If the study is closed, these are all of its releases, and it was not "
        f"withdrawn, then it was left out: show a copy without the key (`trimask-client receipt --shown`) to "
        f"{study.contact}."
    )

"""`trimask receipt verify`: whether every right provider of a study signed a person's receipt."""

from __future__ import annotations

import argparse
from pathlib import Path

from trimask_terminal.options import Subparsers, add_json, print_json

__all__ = ["register"]


def register(subparsers: Subparsers) -> None:
    """Add the command and its own command."""
    parser = subparsers.add_parser("receipt", help="verify a participant's receipt")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    verify = commands.add_parser(
        "verify",
        help="check every signature of a receipt",
        description="Check that each right provider of the study signed that its part of the submission was on its disk. "
        "A receipt says nothing about what was answered.",
    )
    verify.add_argument("receipt", type=Path, metavar="RECEIPT.json", help="the receipt")
    verify.add_argument(
        "--study", type=Path, required=True, metavar="STUDY.json", help="the signed study it is for"
    )
    add_json(verify)
    verify.set_defaults(run=run_verify)


def run_verify(args: argparse.Namespace) -> int:
    """Verify, and say who signed when."""
    from datetime import UTC, datetime

    from trimask_cli.study_file import read_signed
    from trimask_core.receipt import Receipt

    study = read_signed(args.study).verify()
    receipt = Receipt.from_json(args.receipt.read_text(encoding="utf-8"))
    receipt.verify(study)
    signed = [
        {
            "role": item.role,
            "organisation": study.party(item.role).organisation,
            "received": datetime.fromtimestamp(item.receive_time_ms / 1000, UTC).isoformat(
                timespec="seconds"
            ),
        }
        for item in receipt.providers
    ]
    if args.json:
        print_json(
            {
                "verified": True,
                "study_id": receipt.study_id.hex(),
                "submission_id": receipt.submission_id.hex(),
                "providers": signed,
                "can_withdraw": bool(receipt.withdrawal_key),
            }
        )
        return 0
    print(f"Verified: every right provider of “{study.title}” signed for {receipt.submission_id.hex()}.")
    for item in signed:
        who = f" ({item['organisation']})" if item["organisation"] else ""
        print(f"  {item['role']}{who}  {item['received']}")
    if receipt.withdrawal_key:
        print(
            "It has its withdrawal key: whoever has this file can withdraw the submission until it is pooled."
        )
    return 0

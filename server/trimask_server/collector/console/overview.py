"""What the console shows of one study, its budget in words included, as plain values for its template."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.progress import closing_of, waiting_of
from trimask_core.submit.personal_budget import spending
from trimask_proto.v1 import study_pb2
from trimask_server.collector.console.records import DAY_MS, Invited
from trimask_server.collector.releases.budget_ledger import BudgetLedger
from trimask_server.protocol.accounting import left_after, spent_by

_DAYS_SHOWN = 30


def together_words(studies: list[Study]) -> str:
    """What several studies can tell of somebody who answers all of them; empty for fewer than two."""
    if len(studies) < 2:
        return ""
    found = spending(studies)
    words = []
    if found.counted:
        many = "all" if found.counted == len(studies) else str(found.counted)
        words.append(
            f"Somebody who answers {many} of these studies has, for a whole record and all releases and budgets "
            f"together, epsilon {found.epsilon:.3g} at delta {found.delta:.2g}. `trimask privacy total` is sharper."
        )
    if found.uncounted:
        words.append(f"Without such a promise, and not counted: {', '.join(found.uncounted)}.")
    return " ".join(words)


def waiting_values(study: Study, status: study_pb2.GetStudyStatusResponse) -> list[Any]:
    """What it waits for, and why."""
    return waiting_of(
        study,
        pending=status.pending_rows,
        masking=status.masking_rows,
        pooled=status.pooled_rows,
        closing=status.state == study_pb2.STUDY_STATE_CLOSING,
    )


def closing_values(study: Study, status: study_pb2.GetStudyStatusResponse) -> dict[str, Any]:
    """What closing now would do."""
    found = closing_of(
        study, pending=status.pending_rows, masking=status.masking_rows, pooled=status.pooled_rows
    )
    return found.to_dict()


def refusal_values(status: study_pb2.GetStudyStatusResponse) -> list[dict[str, Any]]:
    """This study's refusals by reason, all nodes together, with what it means and whether waiting helps."""
    totals: dict[str, int] = {}
    nodes: dict[str, list[str]] = {}
    for node in status.refusals:
        for item in node.study_counts:
            totals[item.reason] = totals.get(item.reason, 0) + item.count
            nodes.setdefault(item.reason, []).append(node.role)
    known = {str(reason): reason for reason in Reason}
    again = {
        "never": "It will not pass by itself.",
        "later": "Devices try again by themselves.",
        "soon": "It passes.",
    }
    return [
        {
            "reason": reason,
            "count": count,
            "nodes": ", ".join(nodes[reason]),
            "meaning": known[reason].meaning if reason in known else "a reason of a later version",
            "again": again[str(known[reason].retry)] if reason in known else "",
        }
        for reason, count in sorted(totals.items(), key=lambda pair: -pair[1])
    ]


def invitation_values(
    made: list[Invited], days: list[tuple[int, int]], complete: int, now_ms: int
) -> dict[str, Any]:
    """Made, used, unused and expired, the response rate, and complete submissions day by day.

    An invitation takes one submission, so as many were used as submissions are complete. Of what expired, only the unused
    is counted, and used ones are taken to be of the earliest invitations.
    """
    count = sum(item.count for item in made)
    left, expired = complete, 0
    for item in made:
        used = min(left, item.count)
        left -= used
        if item.expire_ms <= now_ms:
            expired += item.count - used
    shown = days[-_DAYS_SHOWN:]
    before = dict(zip([day for day, _ in shown], [0, *(total for _, total in shown)], strict=False))
    if len(days) > len(shown):
        before[shown[0][0]] = days[-_DAYS_SHOWN - 1][1]
    return {
        "made": count,
        "used": min(complete, count) if made else complete,
        "expired": expired,
        "unused": max(count - complete - expired, 0),
        "rate": f"{complete / count:.0%}" if count else "",
        "days": [
            {
                "day": f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m-%d}",
                "came": total - before[day],
                "total": total,
                "rate": f"{total / count:.0%}" if count else "",
            }
            for day, total in shown
        ],
    }


async def budget_lines(ledger: BudgetLedger, study: Study) -> list[tuple[str, str]]:
    """(name, amount) lines; none for a study that publishes its releases by itself."""
    budget = study.protection.budget
    if budget is None:
        return []
    entries = await ledger.entries(study.id)
    prices = [entry.price for entry in entries]
    amounts = (("in all", budget), ("spent", spent_by(budget, prices)), ("left", left_after(budget, prices)))
    lines = [
        (
            name,
            ", ".join(
                f"{part} = {getattr(amount, part):.4g}"
                for part in ("epsilon", "delta", "mu")
                if getattr(amount, part, None) is not None
            ),
        )
        for name, amount in amounts
    ]
    return [*lines, ("answers", f"{len(entries):,}")]

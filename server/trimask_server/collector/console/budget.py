"""A study's budget in words, for the console: in all, spent, left, and how many answers it went to."""

from __future__ import annotations

from trimask_core.study import Study
from trimask_server.collector.releases.budget_ledger import BudgetLedger
from trimask_server.protocol.accounting import left_after, spent_by

__all__ = ["budget_lines"]


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

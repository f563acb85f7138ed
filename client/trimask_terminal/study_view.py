"""A study in words: what is asked, what is promised, and what each party would be agreeing to."""

from __future__ import annotations

import datetime as dt
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.guarantee import Guarantee
from trimask_core.rows import collusion
from trimask_core.schema import Attribute
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Budget, Study

__all__ = ["approval_words", "make_console", "render", "summary"]


def make_console() -> Console:
    """A console that prints what it is given: no guessed colours."""
    return Console(highlight=False, markup=False)


def summary(signed: SignedStudy) -> dict[str, Any]:
    """A JSON-ready form of what `render` shows."""
    study = signed.study
    return {
        "id": study.id.hex(),
        "title": study.title,
        "purpose": study.purpose,
        "contact": study.contact,
        "created_ms": study.created_ms,
        "approved_by": [approval.role for approval in signed.approvals],
        "missing": list(signed.missing),
        "columns": [column.name for column in study.schema.columns],
        "attributes": study.schema.to_dict()["attributes"],
        "derived": study.schema.to_dict()["derived"],
        "protection": study.protection.to_dict(),
        "clipping": None if study.clipping is None else study.clipping.to_dict(),
        "block_rows": study.rows.block_rows,
        "release_rows": study.release_rows,
        "noise_columns": study.rows.noise_columns,
        "tau": study.rows.tau,
        "share_leakage": study.rows.share_leakage,
        "grid_exponent": study.rows.grid_exponent,
        "unmasking": list(study.rows.unmasking),
        "admission": study.admission,
        "access": study.access,
        "parties": [
            {
                "role": role,
                "organisation": party.organisation,
                "address": party.address,
                "peer_address": party.peer_address,
                "identity": party.identity.hex(),
            }
            for role, party in study.parties.items()
        ],
        "collusion": collusion.report(study.rows.topology).summary,
    }


def render(signed: SignedStudy) -> RenderableType:
    """The study as tables."""
    study = signed.study
    return Group(
        Text(study.title, style="bold"),
        Text(study.purpose),
        Text(f"id {study.id.hex()}   contact {study.contact}   made {_day(study)}", style="dim"),
        Text(),
        _questions(study),
        Text(),
        _facts(study),
        Text(),
        _parties(signed),
        Text(),
        _approvals(signed),
    )


def approval_words(study: Study, role: str) -> list[str]:
    """What the party in `role` agrees to, a sentence each."""
    asked = ", ".join(attribute.label or attribute.name for attribute in study.schema.attributes)
    return [
        f"You would take part in “{study.title}” as {role} ({study.party(role).organisation}).",
        f"It is run by {study.collector.organisation}; for questions: {study.contact}.",
        f"People are asked: {asked}.",
        *_doors(study),
        *_promises(study),
        _duty(study, role),
        collusion.report(study.rows.topology).summary,
        "Your signature is for this study alone, whose id is its own hash; nobody can change it afterwards.",
    ]


def _doors(study: Study) -> list[str]:
    """Who may submit, and who may read."""
    submit = (
        "Only invited people may submit, each once."
        if study.admission == "invited"
        else "Anybody who has the link may submit."
    )
    read = (
        "What is published is for researchers with a token of the owner's."
        if study.access == "token"
        else "What is published, anybody may read."
    )
    return [submit, read]


def _promises(study: Study) -> list[str]:
    protection = study.protection
    if protection.budget is not None:
        return [
            (
                f"No row is ever published. The collector keeps sums of squares and products, exactly, and gives private "
                f"answers from them until {_budget(protection.budget)} is spent; then it erases them."
            )
        ]
    if not protection.sigma:
        return [
            (
                "NO DIFFERENTIAL PRIVACY: no noise is added. Rows are masked, but a release shows every sum "
                "of squares and products exactly, from which single people may be found out."
            )
        ]
    return [
        f"A release holds {study.release_rows:,} people at least, and promises {_pair(protection.public)}.",
        f"The collector sees blocks of {study.rows.block_rows:,} in passing: {_pair(protection.collector)}.",
    ]


def _budget(budget: Budget) -> str:
    parts = [] if budget.epsilon is None else [f"epsilon {budget.epsilon:g} with delta {budget.delta:g}"]
    return " and ".join(parts if budget.mu is None else [*parts, f"mu {budget.mu:g}"])


def _duty(study: Study, role: str) -> str:
    unmasks = [f"R{k}" for k, node in enumerate(study.rows.unmasking, 1) if node == role]
    if role == "collector":
        duty = "Your node plans blocks, pools them, publishes releases, and forgets each block once pooled."
    elif role.startswith("R"):
        duty = "Your node keeps one component of every row until its block is pooled, then erases it."
    else:
        duty = "Your node rotates every block by a secret mask of its own and keeps neither."
    return duty + (f" It also removes the right mask of {' and '.join(unmasks)}." if unmasks else "")


def _pair(guarantee: Guarantee | None) -> str:
    if guarantee is None or guarantee.epsilon is None:
        return "nothing"
    return (
        f"({guarantee.epsilon:.3g}, {guarantee.delta:.0e})-differential privacy "
        f"for {guarantee.neighbours} ({guarantee.basis})"
    )


def _questions(study: Study) -> Table:
    table = _table("question", "name", "kind", "answers")
    for attribute in study.schema.attributes:
        table.add_row(attribute.label or attribute.name, attribute.name, attribute.kind, _answers(attribute))
    for derived in study.schema.derived:
        table.add_row("(formed on the device)", derived.name, derived.kind, " and ".join(derived.of))
    return table


def _answers(attribute: Attribute) -> str:
    if attribute.kind == "categorical":
        return ", ".join(attribute.levels)
    if attribute.kind == "binary":
        return "yes, no"
    low, high = attribute.bounds
    return f"{low:g} to {high:g} {attribute.unit}".rstrip()


def _facts(study: Study) -> Table:
    protection = study.protection
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    if protection.sigma:
        table.add_row("towards the public", _pair(protection.public))
        table.add_row("towards the collector", _pair(protection.collector))
        table.add_row(
            "noise", f"sigma = {protection.sigma:.4g} on values scaled to [-1, 1] ({protection.method})"
        )
    else:
        table.add_row("towards everybody", Text(_promises(study)[0], style="bold red"))
    if study.clipping is not None:
        ball = zip(study.clipping.columns, study.clipping.centre, study.clipping.deviations, strict=True)
        near = ", ".join(f"{name} {centre:g} (sd {deviation:g})" for name, centre, deviation in ball)
        table.add_row("devices clip", f"towards {near}, to radius {study.clipping.radius:.4g}")
    columns = f"{study.attributes} + {study.rows.noise_columns} noise columns of scale {study.rows.tau:.3g}"
    table.add_row("a row", f"norm at most {protection.row_norm:.4g}; {columns}")
    table.add_row(
        "together", f"{study.rows.block_rows:,} rows masked, {study.release_rows:,} or more published"
    )
    leakage = (
        f"2^{study.rows.share_leakage.hex().split('p')[1]}" if _is_power(study.rows.share_leakage) else None
    )
    table.add_row(
        "components", f"each hides a row to mu = {leakage or f'{study.rows.share_leakage:.3g}'} Gaussian DP"
    )
    table.add_row("who", " ".join(_doors(study)))
    table.add_row("collusion", collusion.report(study.rows.topology).summary)
    return table


def _is_power(value: float) -> bool:
    return value.hex().startswith("0x1.0000000000000p")


def _parties(signed: SignedStudy) -> Table:
    study = signed.study
    table = _table("party", "organisation", "devices", "nodes", "unmasks", "approved")
    for role, party in study.parties.items():
        unmasks = ", ".join(f"R{k}" for k, node in enumerate(study.rows.unmasking, 1) if node == role)
        approved = "no" if role in signed.missing else "yes"
        table.add_row(
            role, party.organisation, party.address or "-", party.peer_address, unmasks or "-", approved
        )
    return table


def _approvals(signed: SignedStudy) -> Text:
    if signed.missing:
        return Text(f"Not approved yet by {', '.join(signed.missing)}.", style="yellow")
    return Text("Approved by every party.", style="green")


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, header_style="dim")
    return table


def _day(study: Study) -> str:
    return dt.datetime.fromtimestamp(study.created_ms / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")

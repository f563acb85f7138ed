"""A study in words: what is asked, what is promised, and what each party would be agreeing to."""

from __future__ import annotations

import datetime as dt
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.collusion import collusion_of
from trimask_core.fingerprint import fingerprint
from trimask_core.schema import Attribute
from trimask_core.signed_study import SignedStudy
from trimask_core.study import Study
from trimask_core.study_weaknesses import Weakness, weaknesses
from trimask_core.suite_words import words_of
from trimask_core.upload import upload_bytes_of
from trimask_terminal.suites import view_of

__all__ = ["approval_words", "make_console", "render", "summary"]


def make_console() -> Console:
    """A console that prints text as given, without automatic highlighting."""
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
        "suite": study.suite.name,
        "release_rows": study.release_rows,
        **view_of(study).summary(study),
        "upload_bytes": upload_bytes_of(study),
        "admission": study.admission,
        "admission_signer": study.admission_signer,
        "reminders": study.reminders,
        "weight": None
        if study.weight is None
        else study.weight.to_dict() | {"in_use": study.weight.table(study.schema)},
        "access": study.access,
        "web": None if study.web is None else study.web.to_dict(),
        "parties": [
            {
                "role": role,
                "organisation": party.organisation,
                "address": party.address,
                "peer_address": party.peer_address,
                "https": party.https,
                "identity": party.identity.hex(),
                "fingerprint": fingerprint(party),
            }
            for role, party in study.parties.items()
        ],
        "collusion": collusion_of(study).summary,
        "weaknesses": [item.to_dict() for item in weaknesses(study)],
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
        *_weak(study),
        Text(),
        _parties(signed),
        Text(),
        _fingerprints(study),
        Text(),
        _approvals(signed),
    )


def approval_words(study: Study, role: str) -> list[str]:
    """What the party in `role` agrees to, a sentence each."""
    asked = "; ".join(attribute.label or attribute.name for attribute in study.schema.attributes)
    honest = words_of(study).honest_people(study)
    said = [
        f"You would take part in “{study.title}” as {role} ({study.party(role).organisation}).",
        f"It is run by {study.collector.organisation}; for questions: {study.contact}.",
        f"People are asked: {asked}{'' if asked.endswith('?') else '.'}",
        *_weighted(study),
        *_doors(study),
        *view_of(study).promises(study),
        " ".join([*honest[:1], "; ".join(line.removeprefix("- ") for line in honest[1:])]).strip(),
        view_of(study).duty(study, role),
        collusion_of(study).summary,
        *(f"WEAK: {item.why} {item.fix}" for item in weaknesses(study)),
        "Your signature is for this study alone, whose id is its own hash; nobody can change it afterwards.",
    ]
    return [sentence for sentence in said if sentence]


def _weighted(study: Study) -> list[str]:
    """How much people count, and who sees to it."""
    if study.weight is None:
        return []
    how = (
        "each device multiplies its row by the root of its weight, and nobody can check that it is its own"
        if study.suite.name == "rows"
        else "each device proves that it used the weight of its level, or one within these bounds"
    )
    return [f"People do not all count the same, but by {study.weight.words(study.schema)}: {how}."]


def _doors(study: Study) -> list[str]:
    """Who may submit, and who may read."""
    submit = (
        f"Only invited people may submit, each once; {_signer(study)} signs the invitations."
        if study.admission == "invited"
        else "Anybody who has the link may submit."
    )
    read = (
        "What is published is for researchers with a token of the owner's."
        if study.access == "token"
        else "What is published, anybody may read."
    )
    remind = (
        [
            "Right providers tell the owner which invitations were used, so whoever sent them can see who answered."
        ]
        if study.reminders
        else []
    )
    return [submit, *remind, *_page(study), read]


def _page(study: Study) -> list[str]:
    if study.web is None:
        return []
    hosts = " or ".join(study.web.hosts)
    said = f"They may do so from a browser too, at {hosts}: who runs a host could change the page and read answers given "
    return [said + "there; answers given in the app do not depend on it."]


def _signer(study: Study) -> str:
    signer = study.admission_signer
    if signer == "owner":
        return f"the owner (key {study.owner_key[:16]}…)"
    return f"{signer} ({study.party(signer).organisation})"


def _questions(study: Study) -> Table:
    table = _table("question", "name", "kind", "answers")
    for attribute in study.schema.attributes:
        table.add_row(attribute.label or attribute.name, attribute.name, attribute.kind, _answers(attribute))
    for derived in study.schema.derived:
        cuts = " at " + ", ".join(f"{cut:g}" for cut in derived.cuts) if derived.cuts else ""
        table.add_row("(formed on the device)", derived.name, derived.kind, " and ".join(derived.of) + cuts)
    return table


def _answers(attribute: Attribute) -> str:
    if attribute.kind == "categorical":
        return ", ".join(attribute.levels)
    if attribute.kind == "binary":
        return "yes, no"
    low, high = attribute.bounds
    return f"{low:g} to {high:g} {attribute.unit}".rstrip()


def _facts(study: Study) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    table.add_row("suite", f"{study.suite.name}; a device uploads {upload_bytes_of(study) / 1000:.1f} kB")
    if not study.protection.sigma:
        table.add_row("towards everybody", Text(view_of(study).promises(study)[0], style="bold red"))
    for heading, words in view_of(study).facts(study):
        table.add_row(heading, words)
    honest = words_of(study).honest_people(study)
    if honest:
        table.add_row("if not all are honest", "\n".join(honest))
    if study.weight is not None:
        table.add_row("weights", " ".join(_weighted(study)))
    table.add_row("who", " ".join(_doors(study)))
    if study.web is not None:
        table.add_row("page", f"{', '.join(study.web.hosts)}\nSHA-256 of its files {study.web.page_sha256}")
    table.add_row("collusion", collusion_of(study).summary)
    return table


def _weak(study: Study) -> list[Text]:
    found = weaknesses(study)
    return [Text("\nWeak in this study", style="bold"), *map(_weakness, found)] if found else []


def _weakness(item: Weakness) -> Text:
    return Text(f"- {item.why} {item.fix}", style="bold red" if item.severity == "refuse" else "yellow")


def _parties(signed: SignedStudy) -> Table:
    study = signed.study
    browsers = ("browsers",) if study.web is not None else ()
    table = _table("party", "organisation", "devices", *browsers, "nodes", "unmasks", "approved")
    for role, party in study.parties.items():
        unmasks = view_of(study).unmasks(study, role)
        approved = "no" if role in signed.missing else "yes"
        places = (
            [party.address, party.https, party.peer_address]
            if browsers
            else [party.address, party.peer_address]
        )
        table.add_row(role, party.organisation, *(place or "-" for place in places), unmasks or "-", approved)
    return table


def _fingerprints(study: Study) -> Table:
    """Of each party's keys, as `trimask node card` prints it where the keys are."""
    table = _table("party", "fingerprint: to compare with each operator over the telephone", "TLS name")
    for role, party in study.parties.items():
        table.add_row(role, fingerprint(party), party.tls_name)
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

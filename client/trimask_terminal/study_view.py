"""A study in words: what is asked, what is promised, what each party would be agreeing to, and who would have to collude.

A person is asked whether to approve it in the same words, from a file and at a node. The collusion report is a table: who,
what they would get, and how.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from trimask_core.explain import statement
from trimask_core.explain.facts import strengths
from trimask_core.explain.sentences import strength_lines
from trimask_core.moments.study import MomentsCollusion
from trimask_core.rows.collusion import Coalition, CollusionReport, default_unmasking
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee
from trimask_core.study.party import fingerprint
from trimask_core.study.schema import Attribute
from trimask_core.study.signed import SignedStudy
from trimask_core.study.weaknesses import Weakness, weaknesses
from trimask_core.submit.submission import upload_bytes_of
from trimask_core.suites import AnyReport, collusion_of
from trimask_proto.v1 import governance_pb2
from trimask_terminal.options import confirmed


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
        **_settings(study),
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
        "strength": [
            {"towards": one.towards, "step": one.step, "guess": one.guess} for one in strengths(study)
        ],
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
    honest = statement.honest_people(study)
    said = [
        f"You would take part in “{study.title}” as {role} ({study.party(role).organisation}).",
        f"It is run by {study.collector.organisation}; for questions: {study.contact}.",
        f"People are asked: {asked}{'' if asked.endswith('?') else '.'}",
        *_weighted(study),
        *_doors(study),
        *_promises(study),
        *strength_lines(study),
        " ".join([*honest[:1], "; ".join(line.removeprefix("- ") for line in honest[1:])]).strip(),
        statement.duty(study, role),
        collusion_of(study).summary,
        *(f"WEAK: {item.why} {item.fix}" for item in weaknesses(study)),
        "Your signature is for this study alone, whose id is its own hash; nobody can change it afterwards.",
    ]
    return [sentence for sentence in said if sentence]


def _settings(study: Study) -> dict[str, Any]:
    """Those of its suite, JSON-ready."""
    if isinstance(study.suite, RowsSettings):
        names = ("block_rows", "noise_columns", "tau", "share_leakage", "grid_exponent")
        return {name: getattr(study.rows, name) for name in names} | {"unmasking": list(study.rows.unmasking)}
    moments = study.moments
    return {
        "honest_providers": moments.honest_providers,
        "ball_norm": moments.ball_norm,
        "several_releases": moments.several_releases,
        "bits": moments.layout.bits,
        "elements": moments.layout.elements,
    }


def _promises(study: Study) -> list[str]:
    loud = study.protection.budget is None and not study.protection.sigma
    first, *others = statement.promised(study)
    return [f"NO DIFFERENTIAL PRIVACY: {first}" if loud else first, *others]


def _pair(guarantee: Guarantee) -> str:
    """(epsilon, delta) or mu, for which neighbours, and on what basis."""
    if guarantee.epsilon is None:
        return (
            f"{guarantee.mu:.4g}-Gaussian differential privacy for {guarantee.neighbours} ({guarantee.basis})"
        )
    ends = guarantee.enclosed
    certified = "" if ends is None else f"; delta certified in [{ends[0]:.5g}, {ends[1]:.5g}]"
    pair = f"({guarantee.epsilon:.3g}, {guarantee.delta:.0e})-differential privacy"
    return f"{pair} for {guarantee.neighbours} ({guarantee.basis}{certified})"


def _sizes(study: Study) -> list[tuple[str, str]]:
    """What a row or report is made of, and how many are put together."""
    norm = f"norm at most {study.protection.row_norm:.4g}"
    if isinstance(study.suite, RowsSettings):
        rows = study.rows
        leakage = f"2^{math.log2(rows.share_leakage):.3g}"
        return [
            (
                "a row",
                f"{norm}; {study.attributes} + {rows.noise_columns} noise columns of scale {rows.tau:.3g}",
            ),
            ("together", f"{rows.block_rows:,} rows masked, {study.release_rows:,} or more published"),
            ("components", f"each hides a row to mu = {leakage} Gaussian DP"),
        ]
    moments, layout = study.moments, study.moments.layout
    ball = f"devices clip to a ball of norm {moments.ball_norm or 0:.4g}, and prove it"
    when = ", again and again" if moments.several_releases else ", when the study closes"
    return [
        ("a record", f"{norm}: {'the whole box of the questions' if moments.ball_norm is None else ball}"),
        (
            "a report",
            f"{layout.q} columns, {layout.bits} bits and their proof, {layout.elements:,} numbers in shares",
        ),
        ("together", f"{study.release_rows:,} or more published{when}"),
    ]


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
        table.add_row("towards everybody", Text(_promises(study)[0], style="bold red"))
    for line in strength_lines(study):
        table.add_row("strength", line)
    else:
        for who, promise in statement.promises(study):
            table.add_row("promised", f"{_pair(promise)}\ntowards {who}")
        scaled = "sums of products of values" if study.suite.name == "moments" else "values"
        table.add_row(
            "noise",
            f"sigma = {study.protection.sigma:.4g} on {scaled} scaled to [-1, 1] ({study.protection.method})",
        )
    for heading, words in _sizes(study):
        table.add_row(heading, words)
    honest = statement.honest_people(study)
    if honest:
        table.add_row("if not all are honest", "\n".join(honest))
    if study.weight is not None:
        table.add_row("weights", " ".join(_weighted(study)))
    if study.pilot is not None:
        by = f"{study.pilot.people:,} others"
        if study.pilot.release:
            by = f"what an earlier release of others lets one expect (manifest {study.pilot.release[:12]}...)"
        table.add_row("pilot", f"what shrinking rows takes from estimates is corrected by {by}")
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
        unmasks = ", ".join(statement.unmasked_by(study, role))
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


_WORDS = {
    governance_pb2.DECISION_WAITING: "waiting",
    governance_pb2.DECISION_APPROVED: "approved",
    governance_pb2.DECISION_REFUSED: "refused",
}


def decision_word(decision: int) -> str:
    """A decision in a word."""
    return _WORDS.get(governance_pb2.Decision.ValueType(decision), "not reached")


def agreed_to(
    study: Study, role: str, console: Console, *, recompute: Callable[[Study], None], sure: bool
) -> bool:
    """Say in plain words what would be approved, and ask, unless they are `sure` already.

    `recompute` raises if the study's promises do not hold (`trimask_theory.planning.study_plan.verify_guarantees`).
    """
    # The maker of the study chose the noise; those who approve it need not take that on trust.
    recompute(study)
    for sentence in approval_words(study, role):
        console.print(f"- {sentence}")
    console.print("- What it promises was recomputed on this machine, and holds.")
    return sure or confirmed(f"Approve study {study.id.hex()[:16]} as {role}?")


# The steps of a chain that a reader needs; multiplying and adding known things is left out.
_DECISIVE = {"unmask", "solve", "align", "correlate", "compose", "remainder"}


def render_collusion(report: AnyReport) -> RenderableType:
    """For a console of any width."""
    style = (
        "bold red" if report.single_breakers else "bold yellow" if report.largest_safe == 1 else "bold green"
    )
    head = Text(report.summary, style=style)
    if isinstance(report, MomentsCollusion):
        found = [(item.parties, item.outcome, "; ".join(item.chain)) for item in report.coalitions]
        return Group(head, _collusion_view_table(found), Text(report.noise_sentence))
    return Group(head, *_rows_parts(report))


def in_short(report: AnyReport) -> list[str]:
    """In a few lines: what is safe, how many smallest groups are not, who they are, the command that lists them."""
    right = report.topology.right if isinstance(report, CollusionReport) else report.right
    command = f"trimask study collusion --right {right} --left "
    if isinstance(report, MomentsCollusion):
        return [report.summary, report.noise_sentence, "How:", f"  {command}0"]
    topology = report.topology
    command += f"{topology.left}"
    if topology.unmasking != default_unmasking(topology.right, topology.left):
        command += f" --unmasking {' '.join(topology.unmasking)}"
    size = report.largest_safe + 1
    smallest = [item for item in report.coalitions if len(item.parties) == size]
    count = f"{len(smallest)} groups of {size}" if len(smallest) > 1 else f"One group of {size}"
    rough = sum(not item.exact for item in smallest)
    how = f", {rough} of them only as estimates" if rough else ""
    larger = len(report.coalitions) - len(smallest)
    more = f" Other groups, all larger: {larger}." if larger else ""
    return [
        report.summary,
        f"{count} could{how}: {_who([item.parties for item in smallest])}.{more}",
        "Each of them, how, and what one party with a changed program could do:",
        f"  {command}",
    ]


_FEW = 4


def _who(groups: Sequence[tuple[str, ...]]) -> str:
    """Groups by name where they are few, otherwise by the roles in them with a count of each."""
    if len(groups) <= _FEW:
        return ", ".join(" + ".join(parties) for parties in groups)
    kinds = Counter(tuple(party[0] for party in parties) for parties in groups)
    return ", ".join(f"{_roles(kind)} ({count})" for kind, count in kinds.items())


def _roles(kind: tuple[str, ...]) -> str:
    """Such as `2 right + collector`; `kind` has the first letter of each role."""
    words = [
        f"{kind.count(letter)} {name}" for letter, name in (("R", "right"), ("L", "left")) if letter in kind
    ]
    if "c" in kind:
        return " + ".join([*words, "collector"])
    return f"{' + '.join(words)} provider{'s' if len(kind) > 1 else ''}"


def _rows_parts(report: CollusionReport) -> list[RenderableType]:
    nodes = ", ".join(f"{node} for component {k}" for k, node in enumerate(report.topology.unmasking, 1))
    found = [(item.parties, item.outcome, _how(item)) for item in report.coalitions]
    parts: list[RenderableType] = [Text(f"Unmasking: {nodes}."), _collusion_view_table(found)]
    if report.through_noise:
        groups = ", ".join(" + ".join(parties) for parties in report.through_noise)
        parts.append(Text(f"Only through the noise columns, so not counted as a break: {groups}."))
    return [*parts, Text(report.right_providers_alone), Text(report.altering)]


def _collusion_view_table(coalitions: list[tuple[tuple[str, ...], str, str]]) -> Table:
    """Who, what they would get, and how; a section for each size."""
    table = Table(title="Who would have to collude", title_style="bold", title_justify="left")
    table.add_column("together", no_wrap=True)
    table.add_column("would get")
    table.add_column("how")
    size = 0
    for parties, gets, how in coalitions:
        if size not in (0, len(parties)):
            table.add_section()
        size = len(parties)
        table.add_row(Text(" + ".join(parties)), Text(gets), Text(how))
    return table


def _how(coalition: Coalition) -> str:
    pairs = zip(coalition.steps, coalition.chain, strict=True)
    told = [words for step, words in pairs if step.rule in _DECISIVE]
    return "; ".join(told or coalition.chain[-2:-1])

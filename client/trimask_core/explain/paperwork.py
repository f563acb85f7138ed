"""Papers of an ethics application, from the signed study: consent sheet, data management plan, impact assessment and
preregistration, each as Markdown.

What a study cannot know is a line that begins with TO FILL IN. The consent sheet is in a language of the catalogue and has
its sentences, the others are in English, and take the exact statement's. Who holds what and until when is what the agreed
programs do, as docs/operations.md#erasure and docs/threat-model.md have it; `tests/core/test_paperwork.py` names the line of
code for each.
"""

from __future__ import annotations

import datetime as dt

from trimask_core.explain import statement
from trimask_core.explain.sentences import catalogue, plain_truth, read_words, told_line
from trimask_core.rows.study import RowsSettings
from trimask_core.study.definition import Study
from trimask_core.study.schema import Attribute
from trimask_core.study.signed import SignedStudy
from trimask_core.study.weaknesses import weaknesses


def _say(key: str, **values: object) -> str:
    return read_words("paperwork")[key].format(**values)


def paperwork(signed: SignedStudy, language: str = "en", formula: str = "") -> dict[str, str]:
    """File names and texts."""
    study = signed.study
    made = {
        "consent.md": _consent(study, language),
        "data-management-plan.md": _data_plan(study),
        "dpia.md": _assessment(study),
        "preregistration.md": _preregistration(study, formula),
    }
    foot = [_say("draft", id=study.id.hex()), _say("advice")]
    if signed.missing:
        foot.append(_say("unsigned", roles=", ".join(signed.missing)))
    return {name: "\n\n".join([text, "---", *foot]) + "\n" for name, text in made.items()}


def _plain(text: str) -> str:
    """A study's own words on one line, without Markdown's or HTML's meaning."""
    for mark in "\\`*_[]<>#|":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _head(study: Study, title: str) -> str:
    by = f"{study.collector.organisation or study.collector.name}; {study.contact}"
    return f"# {title}: {_plain(study.title)}\n\n{_plain(study.purpose)}\n\n{_plain(by)}"


def _asked(study: Study, language: str) -> list[str]:
    """The questions as people read them."""
    if study.form is None:
        return [_plain(one.label or one.name) for one in study.schema.attributes]
    shown = study.form.language(language)
    return [_plain(one.label[shown]) for one in study.form.questions if one.kind != "heading"]


def _consent(study: Study, language: str) -> str:
    say, truth = catalogue(language), plain_truth(study, language)
    promised = [f"**{one.towards}: {one.word}.** {' '.join(one.sentences)}" for one in truth.promises]
    institutions = [
        f"{role}: {_plain(party.organisation or party.name)}" for role, party in study.parties.items()
    ]
    parts = [
        _head(study, say["consent.title"]),
        _list([*truth.first, truth.strength]),
        _list(_asked(study, language)),
    ]
    parts += [f"## {say['study.promised']}", _list(promised), truth.note]
    seen = [f"{who}: {what}" for who, what in truth.seen]
    parts += [f"## {say['study.collude']}", _list(seen)]
    parts += [f"## {say['study.where']}", _list(institutions)]
    parts += [
        f"## {say['withdraw.heading']}",
        say["withdraw.can"],
        f"## {say['consent.title']}",
    ]
    if study.form is not None and study.form.agreement is not None:
        parts.append(_plain(study.form.agreement.text[study.form.language(language)]))
    else:
        parts.append(say["consent.plain"])
    return "\n\n".join(
        [part for part in parts if part]
        + [f"{say['consent.name']}: ____________________", _say("fill.consent")]
    )


def _variables(study: Study) -> str:
    rows = [[one.name, _plain(one.label or one.name), _values(one)] for one in study.schema.attributes]
    for made in study.schema.derived:
        cuts = f" ({', '.join(f'{cut:g}' for cut in made.cuts)})" if made.cuts else ""
        rows.append(
            [made.name, _say("variable.derived", kind=made.kind, of=" and ".join(made.of)) + cuts, ""]
        )
    return _table([_say(f"variables.{name}") for name in ("column", "question", "values")], rows)


def _values(attribute: Attribute) -> str:
    if attribute.kind == "categorical":
        return ", ".join(attribute.levels).replace("_", "\\_")
    if attribute.kind == "binary":
        return _say("values.yes_no")
    low, high = attribute.bounds
    return f"{attribute.kind}, {low:g} to {high:g} {_plain(attribute.unit)}".rstrip()


def _holdings(study: Study) -> str:
    """Who holds what, until when, by the agreed programs."""
    suite = "rows" if isinstance(study.suite, RowsSettings) else "moments"
    days = _say("hold.days")
    rows = [[_say("hold.device"), _say("hold.device.what"), _say("hold.device.when")]]
    unmasks = set(study.rows.unmasking) if suite == "rows" else set()
    for role, party in study.parties.items():
        name = f"{_plain(party.organisation or party.name)} ({role})"
        if role.startswith("R"):
            rows.append([name, _say(f"hold.right.what.{suite}"), _say(f"hold.right.when.{suite}")])
            more = [_say(f"hold.right.what.more.{suite}")]
            if study.admission == "invited":
                more.append(_say("hold.right.invited"))
            rows.append([name, "; ".join(more), _say("hold.right.when.more", days=days)])
        elif role.startswith("L"):
            rows.append([name, _say("hold.left.what"), _say("hold.left.when")])
        else:
            rows.append(
                [name, _say(f"hold.collector.what.{suite}"), _say(f"hold.collector.when.{suite}", days=days)]
            )
        if role in unmasks:
            rows.append([name, _say("hold.right.what.unmasks"), _say("hold.right.when.unmasks")])
    rows.append([_say("hold.public"), _say("hold.public.what"), _say("hold.public.when")])
    head = [_say("hold.head.who"), _say("hold.head.what"), _say("hold.head.when")]
    return "\n\n".join(
        [f"## {_say('hold.title')}", _table(head, rows), _say("hold.notes"), _say("fill.owner")]
    )


def _data_plan(study: Study) -> str:
    suite = "rows" if isinstance(study.suite, RowsSettings) else "moments"
    parts = [
        _head(study, _say("data.title")),
        _say("data.form"),
        f"## {_say('variables')}",
        _variables(study),
    ]
    parts += [
        _holdings(study),
        f"## {_say('data.releases')}",
        _say("data.raw"),
        _say(f"data.files.{suite}"),
        _say("data.software"),
    ]
    parts += [_say(f"data.access.{study.access}"), _say("data.lasting")]
    if study.licence:
        parts.append(_say("data.licence", licence=_plain(study.licence)))
    return "\n\n".join([*parts, _say("fill.data")])


def _assessment(study: Study) -> str:
    parts = [_head(study, _say("dpia.title")), _say("dpia.alone")]
    parts += [_say("dpia.asked", count=len(study.schema.attributes)), _say("dpia.words")]
    said = [statement.way(study), *statement.notes(study)]
    parts += [*(f"> {sentence}" for sentence in said), _holdings(study), f"## {_say('dpia.risks')}"]
    risks = [
        *statement.promised(study),
        "\n".join(statement.honest_people(study)),
        statement.colluders(study),
        told_line(study),
    ]
    if study.web is not None:
        risks.append(_say("dpia.web", hosts=", ".join(study.web.hosts)))
    weak = [_say("dpia.weak", why=item.why, fix=item.fix) for item in weaknesses(study)]
    risks += [*(weak or [_say("dpia.none")]), _say("dpia.false"), _say("dpia.stop"), _say("dpia.stolen")]
    parts.append(_list([risk.replace("\n- ", "\n  - ") for risk in risks if risk]))
    again = _say(f"dpia.rights.correct.{study.admission}")
    rights = [
        statement.withdrawal(study),
        _say("dpia.rights.access"),
        _say("dpia.rights.correct", again=again),
    ]
    parts += [f"## {_say('dpia.rights')}", _list([*rights, _say("dpia.person")]), _say("fill.basis")]
    return "\n\n".join(part for part in parts if part)


def _preregistration(study: Study, formula: str) -> str:
    day = dt.datetime.fromtimestamp(study.created_ms / 1000, dt.UTC).date().isoformat()
    several = not isinstance(study.suite, RowsSettings) and study.moments.several_releases
    people = _say(
        "prereg.people.several" if several else "prereg.people.one", people=f"{study.release_rows:,}"
    )
    if study.protection.budget is not None:
        people = _say("prereg.budget")
    parts = [_head(study, _say("prereg.title")), _say("prereg.fixed", day=day), f"## {_say('variables')}"]
    parts += [
        _variables(study),
        f"## {_say('prereg.people')}",
        people,
        _say("fill.stop"),
        *statement.promised(study),
    ]
    if study.protection.sigma:
        parts.append(_say("prereg.sigma", sigma=f"{study.protection.sigma:.4g}"))
    if study.pilot is not None:
        key = "prereg.pilot.release" if study.pilot.release else "prereg.pilot"
        norm = study.moments.ball_norm if study.suite.name == "moments" else study.protection.row_norm
        parts.append(
            _say(key, norm=f"{norm:.4g}", people=f"{study.pilot.people:,}", release=study.pilot.release)
        )
    if study.weight is not None:
        parts.append(_say("prereg.weights", weight=study.weight.words(study.schema)))
    parts += [f"## {_say('prereg.analysis')}", _say("prereg.learn")]
    if formula:
        parts.append(_say("prereg.model", formula=formula))
    return "\n\n".join([*parts, _say("fill.model")])

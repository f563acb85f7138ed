"""A study in words: who asks, what for, what is promised, and who would have to collude to break it."""

from __future__ import annotations

from collections.abc import Sequence

from trimask_core.basics.errors import StudyError
from trimask_core.explain import statement
from trimask_core.explain.sentences import catalogue, strength_lines, told_line
from trimask_core.study.definition import Study
from trimask_core.study.schema import Attribute
from trimask_core.study.verify_guarantee import check_claims
from trimask_core.study.weaknesses import weaknesses
from trimask_core.submit.institutions import Standing


def check_study_id(study: Study, wanted: bytes | str) -> None:
    """Raise `StudyError` unless this is the study with the id `wanted` (bytes or hexadecimal digits)."""
    text = wanted.hex() if isinstance(wanted, bytes) else wanted.strip().lower()
    if study.id.hex() != text:
        raise StudyError(
            f"this is not the study of the invitation: its id begins {study.id.hex()[:12]}, the invitation's "
            f"{text[:12]}. Take no part, and ask who invited you."
        )


def explain_study(study: Study, *, checked: bool = False, parties: Sequence[Standing] = ()) -> str:
    """Plain text, a paragraph a subject.

    `checked`: it also says what of its promise a device cannot work out; `parties`: and which institutions it knows.
    """
    parts = [
        f"{study.title}\n{study.purpose}",
        f"Asked by {statement.party_words(study, 'collector')}. Contact: {study.contact}.",
        "You are asked for: "
        + "; ".join(_question(attribute) for attribute in study.schema.attributes)
        + ".",
        *_known(parties),
        statement.way(study, _receivers(study)),
        _strength(study),
        _promise(study, checked=checked),
        *_weak(study),
        statement.colluders(study),
        *statement.notes(study),
        statement.withdrawal(study),
        f"{statement.say('id', id=study.id.hex())} Compare it with the one in your invitation.",
    ]
    return "\n\n".join(parts)


def _known(parties: Sequence[Standing]) -> list[str]:
    """Who is in a directory of this device, under which name, and who is not."""
    if not parties:
        return []
    lines = [
        f"{item.organisation} ({item.role}) is known to this device as {item.known_as}, by {item.keeper}."
        for item in parties
        if item.known_as is not None
    ]
    unknown = [f"{item.organisation} ({item.role})" for item in parties if item.known_as is None]
    if unknown:
        lines.append(
            f"Not known to this device: {', '.join(unknown)}. They have signed this study, but nobody this device trusts "
            "says who they are; whoever made the study may have made them up. Ask who invited you if in doubt."
        )
    return ["\n".join(lines)]


def _question(attribute: Attribute) -> str:
    name = attribute.label or attribute.name
    if attribute.kind == "categorical":
        return f"{name} ({', '.join(attribute.levels)})"
    if attribute.kind == "binary":
        return f"{name} (yes or no)"
    low, high = attribute.bounds
    return f"{name} ({low:g} to {high:g}{' ' + attribute.unit if attribute.unit else ''})"


def _receivers(study: Study) -> str:
    return ", ".join(statement.party_words(study, f"R{k}") for k in range(1, len(study.right) + 1))


def _strength(study: Study) -> str:
    """On the one scale, and who can tell that somebody took part."""
    say = catalogue("en")
    lines = [
        f"{say['study.promised']}:",
        *(f"- {line}" for line in strength_lines(study)),
        say["note"],
        told_line(study),
    ]
    return "\n".join(lines)


def _promise(study: Study, *, checked: bool) -> str:
    lines = statement.promised(study)
    if study.protection.budget is not None:
        return lines[0]
    if not study.protection.sigma:
        return f"{lines[0]} {statement.say('exact.known')}"
    lines += [statement.say("unchecked", what=what) for what in check_claims(study)] if checked else []
    return "\n".join([*lines, *statement.honest_people(study)]) or statement.say("towards.nobody")


def _weak(study: Study) -> list[str]:
    """Weaknesses of the study that its owner was told as well; a device cannot repair them."""
    found = weaknesses(study)
    return ["\n".join(["This study is weak in this:", *(f"- {item.why}" for item in found)])] if found else []

"""The rules a study has to keep: one that contradicts itself, or cannot give the protection it claims, is refused.

They are checked whenever a study is made or read, so a device does not have to trust the party that made it. They need no
statistics library. A study that keeps the rules may still promise little: `study_weaknesses`.
"""

from __future__ import annotations

import math
import re
from dataclasses import fields

from trimask_core.errors import ImpossibleStudy, StudyError
from trimask_core.rows.study import RowsSettings
from trimask_core.study_settings import StudySettings, SuiteSettings
from trimask_core.weight import Weight

__all__ = ["check_settings"]

_PLAIN: dict[object, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float, type(None)),
}


def _check_types(settings: StudySettings | SuiteSettings) -> None:
    for item in fields(settings):
        value, wanted = getattr(settings, item.name), _PLAIN.get(item.type)
        if wanted is not None and (isinstance(value, bool) or not isinstance(value, wanted)):
            raise StudyError(f"study field {item.name} must be of type {item.type}")


def check_settings(study: StudySettings) -> None:
    """Refuse a study whose numbers cannot give the protection it claims."""
    _check_types(study)
    _check_types(study.suite)
    row_norm, sigma = study.protection.row_norm, study.protection.sigma
    if not (math.isfinite(sigma) and sigma >= 0):
        raise ImpossibleStudy("sigma", "sigma and tau must be finite and not negative")
    if study.protection.budget is not None and sigma:
        raise ImpossibleStudy(
            "budget",
            "a budget is for a study without noise of its own: with noise it is published, and answers cost nothing",
        )
    if study.admission not in ("open", "invited"):
        raise StudyError("admission must be 'open' or 'invited'")
    _check_signer(study)
    if study.access not in ("public", "token"):
        raise StudyError("access must be 'public' or 'token'")
    if study.weight is not None:
        _check_weight(study, study.weight)
    if isinstance(study.suite, RowsSettings):
        if study.protection.budget is not None:
            # Somebody would have to hold exact sums over everybody to answer from.
            raise ImpossibleStudy("budget", 'a budget needs suite = "moments", where nobody holds the sums')
        if not (0 < row_norm <= study.schema.row_norm * (1 + 1e-12)):
            raise ImpossibleStudy(
                "row_norm", f"row_norm must be in (0, {study.schema.row_norm:.4g}], the schema's largest"
            )
        study.rows.check()
    else:
        if not (math.isfinite(row_norm) and row_norm > 0):
            raise ImpossibleStudy("row_norm", "row_norm must be above 0")
        study.moments.check()
    if study.form is not None:
        from trimask_core.form_schema import check_schema

        check_schema(study.form, study.schema)
    _check_parties(study)
    if study.web is not None:
        _check_web(study)


def _check_signer(study: StudySettings) -> None:
    """Check that the collector does not admit people itself: it could surround one person with devices of its own."""
    signer = study.admission_signer
    if not isinstance(study.reminders, bool):
        raise StudyError("study field reminders must be of type bool")
    if study.reminders and study.admission == "open":
        raise ImpossibleStudy("reminders", "an open study has no invitations: take reminders out")
    if not re.fullmatch("[0-9a-f]{64}", study.owner_key):
        raise ImpossibleStudy(
            "owner_key", "owner_key must be the key with which the owner orders the study closed"
        )
    if study.owner_key == study.collector.identity.hex():
        raise ImpossibleStudy("owner_key", "owner_key must not be the collector's own")
    if study.admission == "open":
        if signer:
            raise ImpossibleStudy(
                "admission_signer", "an open study has no invitations: take admission_signer out"
            )
        return
    providers = [f"R{k}" for k in range(1, len(study.right) + 1)]
    if signer not in ("owner", *providers):
        raise ImpossibleStudy(
            "admission_signer",
            f"admission_signer must be 'owner' or a right provider's role, {providers[0]} to {providers[-1]}; "
            "the collector may not admit people",
        )


def _check_weight(study: StudySettings, weight: Weight) -> None:
    """Weights are bounded, and the promise is about whole records: docs/theory/collection.md#weights."""
    weight.check(study.schema)
    if study.protection.budget is not None:
        raise ImpossibleStudy(
            "weight",
            "weight: private answers are made for rows that all count the same; take the weight or the budget out",
        )
    public = study.protection.public
    if public is not None and public.neighbours.relation == "unit":
        raise ImpossibleStudy(
            "weight",
            "weight: an answer that changes the weight moves the whole row; protect records, or take the weight out",
        )
    if isinstance(study.suite, RowsSettings):
        if weight.steps:
            raise ImpossibleStudy("weight", "weight: steps are of the moments suite; they must be 0 here")
        return
    if not weight.steps:
        raise ImpossibleStudy("weight", "weight: steps must be at least 1 in the moments suite")
    if study.moments.layout.radius_squared < 2:
        # sqrt(2) R^2 bounds what a record moves whatever x_0 is, from here on.
        raise ImpossibleStudy(
            "weight",
            "weight: give a row_norm of at least 1.415, or none; below it a weighted record can move more",
        )


def _check_parties(study: StudySettings) -> None:
    identities = [party.identity for party in study.parties.values()]
    tls_names = [party.tls_name for party in study.parties.values()]
    sealing = [party.sealing for party in study.right]
    if any(len(set(group)) != len(group) for group in (identities, tls_names, sealing)):
        raise ImpossibleStudy("same_party_twice", "every party needs its own keys and its own TLS name")
    for role, party in study.parties.items():
        if len(party.identity) != 32 or len(party.sealing) != (32 if role.startswith("R") else 0):
            raise ImpossibleStudy(
                "bad_key", f"{role}: its identity or sealing key is missing or has the wrong length"
            )


def _check_web(study: StudySettings) -> None:
    """A page calls the collector and every right provider over HTTPS, so each needs a place for it."""
    for role in ("collector", *(f"R{k}" for k in range(1, len(study.right) + 1))):
        if not study.party(role).https:
            raise ImpossibleStudy(
                "web_https",
                f"{role} has no https port, which a study with [web] needs: its operator sets https_listen in node.toml "
                "and gives a new card (`trimask node init ... --https ORIGIN`, then `trimask node card`)",
            )

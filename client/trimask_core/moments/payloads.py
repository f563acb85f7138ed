"""The payloads of the moments suite: a seed for right providers 1..K1-1, the last share itself for the last."""

from __future__ import annotations

from collections.abc import Mapping

from trimask_core.moments.report import build_report
from trimask_core.moments.sharing import check_share_form, split
from trimask_core.moments.sharing import payloads as share_payloads
from trimask_core.payload import PayloadForm
from trimask_core.randomness import RandomSource
from trimask_core.study import Study

__all__ = ["check_payload", "form_of", "payloads"]


def payloads(study: Study, answers: Mapping[str, object], source: RandomSource) -> list[bytes]:
    """One payload a right provider, from what a person answered: the report's bits, products and proof, in shares."""
    report = build_report(study.moments.layout, answers, source)
    return list(share_payloads(*split(report, len(study.right), source)))


def form_of(study: Study, provider: int) -> PayloadForm:
    """The form of payloads for right provider `provider` (1..K1)."""
    return PayloadForm("moments", provider, len(study.right), study.moments.layout.elements)


def check_payload(form: PayloadForm, payload: bytes) -> None:
    """Refuse an opened payload of another form, without expanding it."""
    check_share_form(payload, form.provider, form.providers, form.values)

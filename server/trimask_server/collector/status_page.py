"""The collector's status pages: how far each study has come, who runs it and what it rests on. HTML without a script.

Nothing is loaded from anywhere: the style is in the page, and the Content-Security-Policy allows that style by its hash and
nothing else. Everything on the pages is what `GetStudyStatus`, `ListDatasets` and the signed study say to anybody.
"""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from trimask_core.basics.errors import Refused
from trimask_core.explain import statement
from trimask_core.explain.sentences import strength_lines
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Guarantee, factor_words
from trimask_core.study.progress import waiting_of
from trimask_core.suites import collusion_of
from trimask_proto.v1 import study_pb2
from trimask_server.collector.publication import Catalogue
from trimask_server.collector.services import StudyServicer
from trimask_server.runtime.context import NodeContext

_FOLDER = Path(__file__).with_name("pages")
_REFRESH_SECONDS = 15
_CSS = (_FOLDER / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_CSS.encode()).digest()).decode()
_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class StatusPages:
    """The list of studies, and a page for each."""

    def __init__(self, node: NodeContext, catalogue: Catalogue, studies: StudyServicer) -> None:
        self._node = node
        self._catalogue = catalogue
        self.studies = studies
        self._templates = Environment(
            loader=FileSystemLoader(_FOLDER),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def routes(self) -> list[web.RouteDef]:
        """What the HTTP port serves."""
        return [web.get("/", self._list), web.get("/studies/{study}", self._study)]

    def page(self, name: str, status: int = 200, *, forms: bool = False, **values: Any) -> web.Response:
        """A template filled in; with `forms` the page may send some to where it came from."""
        now = self._node.clock.now_ms()
        html = self._templates.get_template(name).render(
            css=_CSS,
            node=self._node.config.name,
            refresh_seconds=_REFRESH_SECONDS,
            now_iso=_iso(now),
            now_text=_words(now),
            forms=forms,
            **values,
        )
        headers = dict(_HEADERS)
        if forms:
            headers["Content-Security-Policy"] = _POLICY.replace("form-action 'none'", "form-action 'self'")
        return web.Response(text=html, status=status, content_type="text/html", headers=headers)

    async def _list(self, _: web.Request) -> web.Response:
        known = self._node.studies
        studies = [
            {
                "id": study.id.hex(),
                "title": study.title,
                "purpose": study.purpose,
                "state": known.state(study.id),
            }
            for study in known.all()
        ]
        return self.page("studies.html", studies=studies[::-1])

    async def _study(self, request: web.Request) -> web.Response:
        try:
            study = self._node.studies.get(bytes.fromhex(request.match_info["study"]))
        except (ValueError, Refused):
            return self.page("missing.html", 404)
        status = await self.studies.status_of(study)
        report = collusion_of(study)
        return self.page(
            "study.html",
            # What a suite calls its steps, and which of them there are, is in a template of its own.
            progress=f"progress_{study.suite.name}.html",
            suite=study.suite,
            id=study.id.hex(),
            title=study.title,
            purpose=study.purpose,
            asked_by=study.collector.organisation or "the collector",
            contact=study.contact,
            state=self._node.studies.state(study.id),  # as new as the status above
            note=status.note,
            pending=status.pending_rows,
            masking=status.masking_rows,
            pooled=status.pooled_rows,
            published=status.published_rows,
            waiting=waiting_of(
                study,
                pending=status.pending_rows,
                masking=status.masking_rows,
                pooled=status.pooled_rows,
                closing=status.state == study_pb2.STUDY_STATE_CLOSING,
            ),
            blocks=status.pooled_blocks,
            failed=status.failed_attempts,
            abandoned=list(status.abandoned_blocks),
            refused=[(item.reason, item.count) for item in status.refused_reports],
            releases=await self.releases(study),
            nodes=[self.node_row(study, item) for item in status.refusals],
            promise=promise_words(study),
            collusion=report.summary,
            coalitions=[(" + ".join(item.parties), item.outcome) for item in report.coalitions[:12]],
            collusion_note=statement.collusion_note(study),
        )

    async def releases(self, study: Study) -> list[dict[str, Any]]:
        """What is published."""
        rows = []
        for dataset_id, _, body, _ in await self._catalogue.datasets(study.id):
            manifest = json.loads(body)
            published = manifest["published_ms"]
            rows.append(
                {
                    "id": dataset_id,
                    "rows": manifest["rows"],
                    "iso": _iso(published),
                    "day": _words(published)[:10],
                    "files": [*(item["name"] for item in manifest["files"]), "manifest.json", "manifest.sig"],
                }
            )
        return rows

    def node_row(self, study: Study, item: study_pb2.NodeRefusals) -> dict[str, Any]:
        """A node's health and refusals."""
        seen = item.last_seen_time_ms
        return {
            "role": item.role,
            "organisation": study.party(item.role).organisation,
            "reachable": item.reachable,
            "seen": f"last seen {_words(seen)[11:]}" if seen else "not seen since this collector was started",
            "counts": [(count.reason, count.count) for count in item.counts],
            "study_counts": [(count.reason, count.count) for count in item.study_counts],
            "used": item.invitations_used,
        }


def promise_words(study: Study) -> list[str]:
    """How strong it is, on the one scale, and the study's guarantee."""
    if study.protection.budget is not None:
        promises = [statement.with_budget(study, "the study's budget")]
    elif not study.protection.sigma:
        promises = [statement.without_noise(study)]
    else:
        promises = [
            statement.say("towards", who=who, promise=_guarantee_words(promise))
            for who, promise in statement.promises(study)
        ]
    return [*strength_lines(study), *promises]


def _guarantee_words(promise: Guarantee) -> str:
    if promise.epsilon is None or promise.delta is None:
        return f"{promise.mu:.3g}-Gaussian differential privacy ({promise.basis})."
    return (
        f"differential privacy with epsilon {promise.epsilon:.3g} and delta {promise.delta:.2g} ({promise.basis}). Had one "
        f"person answered quite differently, the probability of anything that can be concluded would change by a factor of "
        f"at most {factor_words(promise.epsilon)}, but for a chance of {promise.delta:.2g}."
    )


def _iso(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def _words(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

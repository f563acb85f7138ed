"""The console's pages and forms. Everything an owner may do here can be done with the `trimask` program too.

Who signs in has a token of scope "owner" in a cookie, and a form token derived from it in every form. The cookie is the
token itself, so there is nothing to keep in memory: any worker can check it, and a revoked token is out at once. It is
HttpOnly, SameSite=Strict and only for /console. Forms carry an HMAC of the token (whoever has no cookie cannot make it),
and a request that names another origin is refused too.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import tarfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.progress import closing_of, waiting_of
from trimask_core.submit.personal_budget import spending
from trimask_proto.v1 import study_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_server.access.tokens import OWNER, Token, TokenStore
from trimask_server.collector.accounting import left_after, spent_by
from trimask_server.collector.ledger import DAY_MS, Invited, Ledger
from trimask_server.collector.publication import Catalogue, dataset_folder
from trimask_server.collector.releases import BudgetLedger
from trimask_server.collector.status_page import StatusPages, promise_words
from trimask_server.runtime.context import NodeContext

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


_WIDE, _HIGH = 600, 160


def chart_values(days: list[tuple[int, int]], least: int, target: int) -> dict[str, Any] | None:
    """Complete submissions over days as a line, with the least number published and the target; None before two days.

    Points are in a picture of 600 by 160, the origin at the top left; `words` say the same.
    """
    if len(days) < 2:
        return None
    first, last = days[0][0], days[-1][0]
    top = max(days[-1][1], least, target) * 1.1

    def place(day: int, people: float) -> str:
        return f"{(day - first) / (last - first) * _WIDE:.0f},{_HIGH * (1 - people / top):.0f}"

    marks = [("least", "least number published", least), ("target", "target", target)]
    shown = [
        {"key": key, "name": name, "people": people, "y": f"{_HIGH * (1 - people / top):.0f}"}
        for key, name, people in marks
        if people
    ]
    said = ", ".join(f"{name} {people:,}" for _, name, people in marks if people)
    began, ended = (f"{datetime.fromtimestamp(day * DAY_MS / 1000, UTC):%Y-%m-%d}" for day in (first, last))
    return {
        "points": " ".join(place(day, total) for day, total in days),
        "marks": shown,
        "first": began,
        "last": ended,
        "words": f"From {began} to {ended}: {days[0][1]:,} to {days[-1][1]:,} complete submissions; {said}.",
    }


PATH = "/console"
_HOURS = 8
_COOKIE = "trimask_owner_"


@dataclass(frozen=True)
class Session:
    """Somebody who has the owner's token of a study."""

    token: Token
    form_token: str


@dataclass(frozen=True)
class Sessions:
    """Who is signed in, by cookie."""

    tokens: TokenStore

    async def check(self, text: str, now_ms: int) -> Session:
        """The session of a token; refused unless it is the owner's."""
        token = await self.tokens.check(f"Bearer {text}", now_ms)
        if OWNER not in token.scopes:
            raise Refused(Reason.BAD_TOKEN, "this token is a researcher's; make one with --scope owner")
        word = hmac.new(text.encode(), b"trimask console form", "sha256").hexdigest()
        return Session(token, word)

    async def of(self, request: web.Request, study_id: bytes, now_ms: int) -> Session | None:
        """The session that may see a study; None if there is none."""
        text = request.cookies.get(_name(study_id), "")
        try:
            session = await self.check(text, now_ms) if text else None
        except Refused:
            return None
        return session if session is not None and session.token.study_id == study_id else None

    async def all(self, request: web.Request, now_ms: int) -> list[Session]:
        """Every study this browser is signed in to."""
        found = []
        for name, text in request.cookies.items():
            if name.startswith(_COOKIE):
                try:
                    found.append(await self.check(text, now_ms))
                except Refused:
                    continue
        return found

    def keep(self, response: web.Response, request: web.Request, session: Session, text: str) -> None:
        """Set the cookie; for HTTPS alone where the proxy says that it is HTTPS."""
        secure = request.headers.get("X-Forwarded-Proto", request.scheme) == "https"
        response.set_cookie(
            _name(session.token.study_id), text, max_age=_HOURS * 3600, path=PATH, httponly=True, secure=secure,
            samesite="Strict",
        )  # fmt: skip

    def forget(self, response: web.Response, study_id: bytes) -> None:
        """Drop the cookie."""
        response.del_cookie(_name(study_id), path=PATH)


def same_origin(request: web.Request) -> bool:
    """Whether a form came from these pages, as far as the browser says where it came from.

    These pages send no referrer, and for that reason "null" as their origin; so does a sandboxed frame of anybody's, which
    `Sec-Fetch-Site` tells apart (browsers send it over HTTPS and to loopback, and no page can set it).
    """
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin", "")
    host = request.headers.get("X-Forwarded-Host", request.host)
    try:
        return origin in ("", "null") or urlsplit(origin).netloc == host
    except ValueError:  # no origin that a browser sends
        return False


def form_token_fits(session: Session, value: object) -> bool:
    """Whether a form's token is the session's."""
    return isinstance(value, str) and hmac.compare_digest(
        session.form_token.encode(), value.encode(errors="replace")
    )


def _name(study_id: bytes) -> str:
    return _COOKIE + study_id.hex()[:16]


_MOST_INVITED = 10**9


class Console:
    """Signing in, a study's page, and its forms."""

    def __init__(
        self, node: NodeContext, pages: StatusPages, catalogue: Catalogue, tokens: TokenStore
    ) -> None:
        self._node = node
        self._pages = pages
        self._catalogue = catalogue
        self._sessions = Sessions(tokens)
        self._ledger = Ledger(node.database)
        self._budget = BudgetLedger(node.database)

    def routes(self) -> list[web.RouteDef]:
        """What the HTTP port serves."""
        study = f"{PATH}/studies/{{study}}"
        return [
            web.get(PATH, self._start),
            web.post(f"{PATH}/sign-in", self._sign_in),
            web.get(study, self._study),
            web.post(f"{study}/sign-out", self._form(self._sign_out)),
            web.post(f"{study}/invited", self._form(self._invited)),
            web.get(f"{study}/datasets/{{dataset}}/{{file}}", self._download),
            web.get(f"{study}/datasets.tar", self._download_all),
        ]

    async def _start(self, request: web.Request, problem: str = "") -> web.Response:
        sessions = await self._sessions.all(request, self._node.clock.now_ms())
        known = {study.id: study for study in self._node.studies.all()}
        studies = [known[one.token.study_id] for one in sessions if one.token.study_id in known]
        shown = [
            {"id": s.id.hex(), "title": s.title, "state": self._node.studies.state(s.id)} for s in studies
        ]
        return self._pages.page(
            "console.html", 403 if problem else 200, forms=True, studies=shown, problem=problem,
            together=together_words(studies),
        )  # fmt: skip

    async def _sign_in(self, request: web.Request) -> web.Response:
        form = await _read_form(request)
        text = str(form.get("token", "")).strip()
        if not same_origin(request):
            return await self._start(request, "This form came from another page; sign in here.")
        try:
            session = await self._sessions.check(text, self._node.clock.now_ms())
            study = self._node.studies.get(session.token.study_id)
        except Refused as error:
            # Whoever signs in here is the owner, who makes tokens; the refusal's own words are for researchers.
            own = "This token was not made here, is revoked, or has expired. Make another as said below."
            return await self._start(request, own if error.reason is Reason.BAD_TOKEN else str(error))
        response = _to(f"{PATH}/studies/{study.id.hex()}")
        self._sessions.keep(response, request, session, text)
        return response

    async def _known(self, request: web.Request) -> tuple[Study, Session] | None:
        try:
            study = self._node.studies.get(bytes.fromhex(request.match_info["study"]))
        except (ValueError, Refused):
            return None
        session = await self._sessions.of(request, study.id, self._node.clock.now_ms())
        return None if session is None else (study, session)

    async def _study(self, request: web.Request) -> web.Response:
        found = await self._known(request)
        return _to(PATH) if found is None else await self._page(*found)

    async def _page(self, study: Study, session: Session, problem: str = "") -> web.Response:
        status, now = await self._pages.studies.status_of(study), self._node.clock.now_ms()
        complete = status.pending_rows + status.masking_rows + status.pooled_rows + status.published_rows
        if complete:
            # The clerk's next round may be a while away.
            await self._ledger.note_complete(study.id, now, complete)
        order = await self._ledger.close_order(study.id)
        made, days = await self._ledger.invited(study.id), await self._ledger.days(study.id)
        waiting = {
            "pending": status.pending_rows, "masking": status.masking_rows, "pooled": status.pooled_rows,
        }  # fmt: skip
        # The number at which the owner ordered the study closed, or as many as were invited.
        target = 0 if order is None else order.close_people
        releases = await self._pages.releases(study)
        return self._pages.page(
            "console_study.html",
            409 if problem else 200,
            forms=True,
            problem=problem,
            form_token=session.form_token,
            id=study.id.hex(),
            title=study.title,
            invited=study.admission == "invited",
            reminders=study.reminders,
            state=self._node.studies.state(study.id),
            note=status.note,
            complete=complete,
            published=status.published_rows,
            waiting=waiting_of(study, **waiting, closing=status.state == study_pb2.STUDY_STATE_CLOSING),
            closing=closing_of(study, **waiting).to_dict(),
            scheduled="" if order is None else _scheduled(order, now),
            invitations=invitation_values(made, days, complete, now),
            chart=chart_values(days, study.release_rows, target or sum(item.count for item in made)),
            refusals=refusal_values(status),
            nodes=[self._pages.node_row(study, item) for item in status.refusals],
            releases=releases,
            released=sum(item["rows"] for item in releases),
            promise=promise_words(study),
            budget=await self._budget_lines(study),
            until=_words(session.token.expire_time_ms),
        )

    async def _budget_lines(self, study: Study) -> list[tuple[str, str]]:
        """(name, amount) lines; none for a study that publishes its releases by itself."""
        budget = study.protection.budget
        if budget is None:
            return []
        prices = [entry.price for entry in await self._budget.entries(study.id)]
        amounts = (
            ("in all", budget), ("spent", spent_by(budget, prices)), ("left", left_after(budget, prices)),
        )  # fmt: skip
        parts = ("epsilon", "delta", "mu")
        shown = [
            (name, ", ".join(f"{p} = {a:.4g}" for p in parts if (a := getattr(amount, p, None)) is not None))
            for name, amount in amounts
        ]
        return [*shown, ("answers", f"{len(prices):,}")]

    def _form(
        self, act: Callable[[web.Request, Study, Session, Any], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        """A form's handler: requires a signed-in session, the form's token, and a request from these pages."""

        async def handle(request: web.Request) -> web.Response:
            found = await self._known(request)
            form = await _read_form(request)
            if found is None:
                return _to(PATH)
            if not same_origin(request) or not form_token_fits(found[1], form.get("form_token")):
                return await self._page(
                    *found, problem="This form was not sent from this page; nothing was done."
                )
            return await act(request, *found, form)

        return handle

    async def _sign_out(self, _: web.Request, study: Study, _session: Session, _form: Any) -> web.Response:
        response = _to(PATH)
        self._sessions.forget(response, study.id)
        return response

    async def _invited(self, _: web.Request, study: Study, session: Session, form: Any) -> web.Response:
        try:
            count = int(str(form.get("count", "")))
            expires = datetime.fromisoformat(str(form.get("expires", ""))).replace(tzinfo=UTC)
        except ValueError:
            return await self._page(study, session, "Give the number made, and the day on which they end.")
        if not 1 <= count <= _MOST_INVITED:
            return await self._page(study, session, "Give how many invitations were made, one at least.")
        made = Invited(self._node.clock.now_ms(), count, int(expires.timestamp() * 1000))
        await self._ledger.note_invited(study.id, made)
        return _to(f"{PATH}/studies/{study.id.hex()}")

    async def _download(self, request: web.Request) -> web.StreamResponse:
        found = await self._known(request)
        if found is None:
            return _to(PATH)
        wanted, name = request.match_info["dataset"], request.match_info["file"]
        for dataset_id, _, body, signature in await self._catalogue.datasets(found[0].id):
            if dataset_id != wanted:
                continue
            headers = {
                "Content-Disposition": f'attachment; filename="{dataset_id}-{name}"',
                "Cache-Control": "no-store",
            }
            if name == "manifest.json":
                return web.Response(body=body, headers=headers)
            if name == "manifest.sig":
                return web.Response(body=signature, headers=headers)
            # Only names in the signed manifest: a path cannot lead out of the dataset's folder.
            listed = json.loads(body)["files"]
            if name in [item["name"] for item in listed]:
                folder = dataset_folder(self._node.config.data, dataset_id, listed[0]["sha256"])
                return web.FileResponse(folder / name, headers=headers)
        return self._pages.page("missing.html", 404)

    async def _download_all(self, request: web.Request) -> web.StreamResponse:
        """Every release in a folder of its own, as `trimask pull` writes them; a piece at a time."""
        found = await self._known(request)
        if found is None:
            return _to(PATH)
        name = f"{found[0].id.hex()[:12]}-datasets.tar"
        response = web.StreamResponse(
            headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
        )
        response.content_type = "application/x-tar"
        await response.prepare(request)
        for dataset_id, _, body, signature in await self._catalogue.datasets(found[0].id):
            manifest = json.loads(body)
            listed = manifest["files"]
            folder = dataset_folder(self._node.config.data, dataset_id, listed[0]["sha256"])
            when = manifest["published_ms"] // 1000
            for file, content in (("manifest.json", body), ("manifest.sig", signature)):
                await response.write(_tar_head(f"{dataset_id}/{file}", len(content), when) + _padded(content))
            for item in listed:
                await response.write(_tar_head(f"{dataset_id}/{item['name']}", item["bytes"], when))
                with (folder / item["name"]).open("rb") as file:
                    while piece := await asyncio.to_thread(file.read, _PIECE):
                        await response.write(piece)
                await response.write(bytes(-item["bytes"] % tarfile.BLOCKSIZE))
        await response.write(bytes(2 * tarfile.BLOCKSIZE))  # the end of an archive
        await response.write_eof()
        return response


_PIECE = 1 << 20


def _tar_head(name: str, size: int, seconds: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = size, seconds
    return info.tobuf(tarfile.PAX_FORMAT)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


async def _read_form(request: web.Request) -> Any:
    try:
        return await request.post()
    except web.HTTPException:
        raise
    except Exception:  # noqa: BLE001 - whatever its parsers raise is the sender's doing
        raise web.HTTPBadRequest(text="this is no form that a browser sends") from None


def _to(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path, "Cache-Control": "no-store"})


def _scheduled(order: CloseOrder, now: int) -> str:
    """When a study closes by itself; empty if it was not ordered to."""
    when = [f"on {_words(order.close_time_ms)}"] if order.close_time_ms > now else []
    when += [f"with {order.close_people:,} people"] if order.close_people else []
    return " or ".join(when)


def _words(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"

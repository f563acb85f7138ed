"""Signing in to the console: a token of scope "owner" in a cookie, and a form token derived from it in every form.

The cookie is the token itself, so there is nothing to keep in memory: any worker can check it, and a revoked token is out at
once. It is HttpOnly, SameSite=Strict and only for /console. Forms carry an HMAC of the token (whoever has no cookie
cannot make it), and a request that names another origin is refused too.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.access.tokens import OWNER, Token, TokenStore

__all__ = ["PATH", "Session", "Sessions", "form_token_fits", "same_origin"]

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

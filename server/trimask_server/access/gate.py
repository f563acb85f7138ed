"""The gate every call passes before its handler runs: who is calling, and does the table (`permissions`) let them."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_server.access.permissions import BROWSER_CALLS, TABLE, Party, Role, Rule, require_complete
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.logs import study_id_of
from trimask_server.runtime.tls import Context, peer_names, require_role
from trimask_server.settings.config import NodeConfig

_DRAINING_MS = 5000


@dataclass(frozen=True)
class Caller:
    """Who is calling: every role that the certificate, the token, or the lack of both gives."""

    roles: frozenset[Role]
    token: Token | None = None


_STRANGER = Caller(frozenset({Role.ANYONE, Role.DEVICE}))
_CALLER: ContextVar[Caller | None] = ContextVar("trimask_caller", default=None)


class Admitted(NamedTuple):
    """A call about a study, by a party of it that may make it: the party's role in it, and this node's."""

    study: Study
    role: str
    own: str


_ADMITTED: ContextVar[Admitted] = ContextVar("trimask_admitted")


def admitted() -> Admitted:
    """The study of the call that is being handled and who makes it, where the call's rule names a party."""
    return _ADMITTED.get()


def current_caller() -> Caller:
    """Who made the call that is being handled."""
    return _CALLER.get() or Caller(frozenset())


class Gate:
    """The gate of one port. Only a collector issues tokens; other nodes ignore them."""

    def __init__(self, node: NodeContext, tokens: TokenStore | None = None, *, mutual: bool) -> None:
        self._node = node
        self._tokens = tokens
        self._mutual = mutual
        self._names: dict[str, set[Role]] = {}
        self._known: list[bytes] = []

    async def admit(self, method: str, request: Any, context: Context) -> None:
        """Refuse the call, or remember who makes it, and about which study, for the handler."""
        rule = TABLE.get(method)
        if rule is None:
            raise Refused(Reason.NOT_YOUR_ROLE, "this call is not in the permission table")
        # Most calls are a device's to a right provider.
        stranger = not self._mutual and self._tokens is None
        caller = _STRANGER if stranger else await self._caller(context)
        _decide(rule, caller, mutual=self._mutual)
        if rule.new_work and self._node.drain.on:
            raise Refused(
                Reason.DRAINING,
                "this node is about to stop and takes no new work; try again soon",
                retry_after_ms=_DRAINING_MS,
            )
        _CALLER.set(caller)
        if rule.party is not None:
            _ADMITTED.set(self._in_study(rule, rule.party, request, context))

    def _in_study(self, rule: Rule, party: Party, request: Any, context: Context) -> Admitted:
        study = self._node.studies.get(study_id_of(request))
        if rule.suite not in ("", study.suite.name):
            raise Refused(
                Reason.MALFORMED,
                f"this call is for studies of the {rule.suite} suite, and this is one of {study.suite.name}",
            )
        own = self._node.role_in(study)
        if not own.startswith(rule.own):
            raise Refused(Reason.NOT_YOUR_ROLE, f"this node is {own} in the study, which does not do this")
        component = getattr(request, "component", None)
        if component is not None and not 1 <= component <= len(study.right):
            raise Refused(Reason.MALFORMED, f"component must be between 1 and {len(study.right)}")
        return Admitted(study, require_role(context, study, party.roles(study, own, component or 0)), own)

    def covers(self, method: str) -> bool:
        """Whether the table has this call."""
        return method in TABLE

    def for_browsers(self, method: str) -> bool:
        """Whether the HTTPS port serves it too."""
        return method in BROWSER_CALLS

    def require_complete(self, services: Iterable[str]) -> None:
        """Refuse to serve a call that is not in the table."""
        require_complete(services)

    async def _caller(self, context: Context) -> Caller:
        token = await self._token(context)
        roles = set() if token is None else {Role.RESEARCHER}
        if not self._mutual:
            return Caller(_STRANGER.roles | roles, token)
        pinned = self._node.certificates.material.operator
        if pinned and _pem(context) == pinned.strip():
            return Caller(frozenset({Role.OPERATOR}))
        names = peer_names(context)
        if self._node.config.owner_tls_name in names:
            roles.add(Role.OWNER)
        known = self._roles_by_name()
        if not roles and not names & known.keys():
            await self._node.studies.refresh()  # another worker of this node may have registered their study
            known = self._roles_by_name()
        return Caller(frozenset(roles.union(*(known.get(name, ()) for name in names))), token)

    async def _token(self, context: Context) -> Token | None:
        if self._tokens is None:
            return None
        sent = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
        if not sent:
            return None
        if len(sent) > 1 or not isinstance(sent[0], str):
            raise Refused(Reason.BAD_TOKEN, "send one token")
        return await self._tokens.check(sent[0], self._node.clock.now_ms())

    def _roles_by_name(self) -> dict[str, set[Role]]:
        """The DNS names of all parties of this node's studies, and what they are there."""
        studies = self._node.studies.all()
        ids = [study.id for study in studies]
        if ids != self._known:
            self._names = {}
            for study in studies:
                for role, party in study.parties.items():
                    self._names.setdefault(party.tls_name, set()).add(_kind(role))
            self._known = ids
        return self._names


def _decide(rule: Rule, caller: Caller, *, mutual: bool) -> None:
    if Role.ANYONE in rule.roles:
        return
    allowed = caller.roles & rule.roles
    if allowed == {Role.RESEARCHER} and (caller.token is None or rule.scope not in caller.token.scopes):
        raise Refused(
            Reason.NOT_YOUR_ROLE, f"this token does not allow {rule.scope}; ask the owner for one that does"
        )
    if allowed or (mutual and rule.by_study and not caller.roles & {Role.OWNER, Role.OPERATOR}):
        return
    if Role.RESEARCHER in rule.roles and not mutual:
        raise Refused(
            Reason.BAD_TOKEN, f"this needs a token of the study's owner with the scope {rule.scope}"
        )
    if rule.roles == {Role.OWNER}:
        raise Refused(
            Reason.NOT_YOUR_ROLE, "only the study owner may call this, on the peer port with its certificate"
        )
    wanted = " or ".join(role for role in Role if role in rule.roles)
    raise Refused(Reason.NOT_YOUR_ROLE, f"only {wanted} may call this")


def require_access(config: NodeConfig, context: Context, study_id: bytes, scope: str) -> None:
    """Refuse everybody but the owner and researchers with a token for this study and scope."""
    if config.owner_tls_name in peer_names(context):
        return
    token = current_caller().token
    if token is None:
        raise Refused(Reason.BAD_TOKEN, f"this needs a token of the study's owner with the scope {scope}")
    if token.study_id != study_id or scope not in token.scopes:
        raise Refused(Reason.NOT_YOUR_ROLE, f"this token does not allow {scope} of this study")


def _kind(role: str) -> Role:
    return Role.COLLECTOR if role == "collector" else Role.RIGHT if role.startswith("R") else Role.LEFT


def _pem(context: Context) -> bytes:
    found = list(context.auth_context().get("x509_pem_cert", []))
    return bytes(found[0]).strip() if found else b""

"""The gate every call passes before its handler runs: who is calling, and does the permission table let them.

One table names every RPC; the gate decides from it, and `python -m trimask_server.access.gate` writes docs/permissions.md
from it. An RPC that is served and not in the table stops the node from starting, so nothing is ever open because somebody
forgot it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf import descriptor_pool

from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Reason
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.peer_identity import Context, peer_names
from trimask_server.settings.config import NodeConfig


class Role(StrEnum):
    """Every kind of caller a node distinguishes, and how it recognises each."""

    ANYONE = "anyone"
    DEVICE = "device"
    RESEARCHER = "researcher"
    OWNER = "owner"
    OPERATOR = "operator"
    COLLECTOR = "collector"
    RIGHT = "right"
    LEFT = "left"


KNOWN_BY = {
    Role.ANYONE: "nothing: a TLS connection to a public port",
    Role.DEVICE: "nothing but what it sends: a sealed component and, in an invited study, an invitation",
    Role.RESEARCHER: "a token of the study's owner (`authorization: Bearer`), scoped, expiring, revocable",
    Role.OWNER: "the certificate with the name `owner_tls_name`, on a peer port (of a right provider, where it admits)",
    Role.OPERATOR: "the certificate pinned in the node's own keys (`operator/tls.pem`), on its peer port",
    Role.COLLECTOR: "its certificate, whose DNS name the study gives, on the peer port",
    Role.RIGHT: "likewise",
    Role.LEFT: "likewise",
}


@dataclass(frozen=True)
class Rule:
    """Who may make one call. `ANYONE` among the roles lets everybody in.

    `scope`: what a researcher's token must allow. `by_study`: any node's certificate passes the gate, because the study
    that would name it comes in the request, or is not registered yet; the handler decides by it. `new_work`: refused
    while the node drains. `browser`: a participant's call, which the HTTPS port serves too. `note`: what the handler
    checks further, in words.
    """

    roles: frozenset[Role]
    scope: str = ""
    by_study: bool = False
    new_work: bool = False
    note: str = ""
    browser: bool = False


def _rule(
    *roles: Role,
    scope: str = "",
    by_study: bool = False,
    new_work: bool = False,
    note: str = "",
    browser: bool = False,
) -> Rule:
    return Rule(frozenset(roles), scope, by_study, new_work, note, browser)


_PUBLIC = _rule(Role.ANYONE)
_PARTICIPANT = _rule(Role.ANYONE, browser=True)
_DATASET = _rule(
    Role.ANYONE,
    scope="datasets",
    note='a study with `access = "token"`: a researcher\'s token for it with the scope datasets, or the owner',
)
_OWNER = _rule(Role.OWNER)
_OPERATOR = _rule(Role.OPERATOR)
_COLLECTOR = _rule(Role.COLLECTOR, note="of the study named in the request")
_RIGHT_PEER = _rule(Role.RIGHT, note="another right provider of the study named in the request")
_PROPOSING = _rule(
    Role.COLLECTOR, by_study=True, note="of the study in the request; `allow_collectors` must have it"
)

_SERVICES: dict[str, dict[str, Rule]] = {
    "trimask_proto.v1.StudyService": {
        "ListStudies": _PUBLIC,
        "GetStudy": _PARTICIPANT,
        "GetStudyStatus": _PARTICIPANT,
    },
    "trimask_proto.v1.DatasetService": {
        "ListDatasets": _DATASET,
        "GetManifest": _DATASET,
        "ReadFile": _DATASET,
    },
    "trimask_proto.v1.ReleaseService": {
        "AskRelease": _rule(Role.RESEARCHER, Role.OWNER, scope="releases", note="a token is for one study"),
        "GetBudget": _PARTICIPANT,
    },
    "trimask_proto.v1.SubmissionService": {
        "Submit": _rule(
            Role.DEVICE,
            new_work=True,
            browser=True,
            note="an invited study: signed with an invitation, which is bound to one submission for ever",
        ),
        "GetSealingKeys": _PARTICIPANT,
        "AskSubmission": _rule(Role.ANYONE, note="anybody who has the receipt, by the hash in it"),
        "Withdraw": _rule(
            Role.ANYONE, browser=True, note="anybody who has the withdrawal key, which is on the device alone"
        ),
    },
    "trimask_proto.v1.StudyOwnerService": {
        "SendProposal": _OWNER,
        "GatherApprovals": _OWNER,
        "OpenStudy": _OWNER,
        "AbandonBlock": _OWNER,
        "CloseStudy": _OWNER,
    },
    "trimask_proto.v1.ReleaseOwnerService": {"EndReleases": _OWNER},
    "trimask_proto.v1.InvitationService": {
        "SignInvitations": _rule(
            Role.OWNER, note="where the study's `admission_signer` is this right provider"
        ),
        "ListUsedInvitations": _rule(
            Role.OWNER, note="which, and not only how many, where the study has `reminders`"
        ),
    },
    "trimask_proto.v1.AdmissionOwnerService": {
        "CreateToken": _OWNER,
        "ListTokens": _OWNER,
        "RevokeToken": _OWNER,
    },
    "trimask_proto.v1.NodeService": {
        "DescribeNode": _rule(
            Role.OWNER,
            Role.OPERATOR,
            Role.COLLECTOR,
            Role.RIGHT,
            Role.LEFT,
            by_study=True,
            note="and a peer this node does not know: one restored from a backup has forgotten its studies",
        ),
        "RegisterStudy": _PROPOSING,
    },
    "trimask_proto.v1.ProposalService": {
        "ProposeStudy": _PROPOSING,
        "GetDecision": _rule(Role.COLLECTOR, by_study=True, note="of the study asked about"),
    },
    "trimask_proto.v1.OperatorService": {
        "GetNodeStatus": _OPERATOR,
        "ListProposals": _OPERATOR,
        "ShowStudy": _OPERATOR,
        "ApproveStudy": _OPERATOR,
        "RefuseStudy": _OPERATOR,
        "DrainNode": _OPERATOR,
        "ReadAudit": _OPERATOR,
    },
    "trimask_proto.v1.RightBatchService": {
        "ListPending": _COLLECTOR,
        "PauseIntake": _COLLECTOR,
        "StopIntake": _COLLECTOR,
        "AssignBlock": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
        "CancelBlock": _COLLECTOR,
        "EraseBlock": _COLLECTOR,
        "EraseStudy": _COLLECTOR,
        "FindMissing": _RIGHT_PEER,
    },
    "trimask_proto.v1.RowDrawService": {
        "FreezeDraw": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
        "JudgeDraw": _COLLECTOR,
        "OpenDraw": _COLLECTOR,
        "SettleDraw": _COLLECTOR,
        "AbandonDraw": _rule(
            Role.COLLECTOR, note="of the study named in the request, with its owner's order"
        ),
    },
    "trimask_proto.v1.RowCheckService": {
        "CommitCheck": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
        "RevealCoin": _COLLECTOR,
        "DecideCheck": _COLLECTOR,
    },
    "trimask_proto.v1.RowCheckPeerService": {
        "GetOpenings": _RIGHT_PEER,
        "GetTagOpenings": _rule(Role.RIGHT, note="a right provider that holds tag keys of the component"),
    },
    "trimask_proto.v1.RightMaskingService": {
        "StartMasking": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
    },
    "trimask_proto.v1.MomentsService": {
        "CheckBatch": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
        "CommitTotals": _COLLECTOR,
        "DeliverTotals": _COLLECTOR,
        "EraseTotals": _COLLECTOR,
    },
    "trimask_proto.v1.MomentsPeerService": {
        "Introduce": _RIGHT_PEER,
        "GetForms": _RIGHT_PEER,
        "GetVerdict": _RIGHT_PEER,
        "CompareLedger": _RIGHT_PEER,
    },
    "trimask_proto.v1.LeftMaskingService": {
        "PushComponent": _rule(
            Role.RIGHT, Role.LEFT, note="to L_1: R_k, its own component; to L_j: L_(j-1) of the study"
        ),
        "PushMaskedKeys": _rule(
            Role.RIGHT, Role.LEFT, note="to L_1 of the study: the node that unmasks the component"
        ),
    },
    "trimask_proto.v1.UnmaskingService": {
        "PrepareAttempt": _rule(Role.COLLECTOR, new_work=True, note=_COLLECTOR.note),
        "ShareBlindingKeys": _COLLECTOR,
        "PushRightMask": _rule(Role.RIGHT, note="R_k, its own component"),
        "PushTagKeys": _rule(Role.RIGHT, note="a right provider that holds tag keys of the component"),
        "PushMasked": _rule(Role.LEFT, note="the last left provider of the study"),
        "Deliver": _COLLECTOR,
        "ForgetContent": _COLLECTOR,
    },
    "trimask_proto.v1.CollectionService": {
        "ReportHeld": _rule(Role.RIGHT, Role.LEFT, note="the node that unmasks the component"),
        "PushDelivery": _rule(Role.RIGHT, Role.LEFT, note="the node that unmasks the component"),
        "ReportFailure": _rule(Role.RIGHT, Role.LEFT, note="of the study"),
    },
    "grpc.health.v1.Health": {"Check": _PUBLIC, "List": _PUBLIC, "Watch": _PUBLIC},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": _PUBLIC},
}

TABLE: dict[str, Rule] = {
    f"/{service}/{method}": rule for service, methods in _SERVICES.items() for method, rule in methods.items()
}


BROWSER_CALLS: frozenset[str] = frozenset(method for method, rule in TABLE.items() if rule.browser)


def require_complete(services: Iterable[str]) -> None:
    """Refuse to serve a method that is not in the table, or one of ours that streams: the gate sees calls, not streams."""
    pool = descriptor_pool.Default()
    for name in services:
        for method in pool.FindServiceByName(name).methods:
            if f"/{name}/{method.name}" not in TABLE:
                raise ConfigError(f"{name}.{method.name} is not in the permission table (permissions.py)")
            if name.startswith("trimask_proto.") and (method.client_streaming or method.server_streaming):
                raise ConfigError(f"{name}.{method.name} streams, which the permission gate does not cover")


def render_page() -> str:
    """docs/permissions.md."""
    lines = [
        "# Who may call what",
        "",
        "Written by `python -m trimask_server.access.gate` from the table the nodes enforce before a handler runs; a",
        "test holds this page to it, and another makes every call in every role and checks every cell. Everything that is",
        "not marked is refused, counted by reason (`trimask study status`) and in the node's audit log.",
        "",
        "| role | known by |",
        "|---|---|",
        *(f"| {role} | {words} |" for role, words in KNOWN_BY.items()),
        "",
        f"| call | {' | '.join(Role)} | and further |",
        f"|---|{'---|' * len(Role)}---|",
    ]
    for service, methods in _SERVICES.items():
        if not service.startswith("trimask_proto."):
            continue
        for method, rule in methods.items():
            allowed = set(Role) if Role.ANYONE in rule.roles else rule.roles
            cells = " | ".join("✓" if role in allowed else "" for role in Role)
            notes = [rule.note] if rule.note else []
            if Role.RESEARCHER in rule.roles and rule.scope:
                notes.append(f"the token's scope: {rule.scope}")
            if rule.new_work:
                notes.append("not while the node drains")
            if rule.browser:
                notes.append("over HTTPS too")
            lines.append(f"| {service.rpartition('.')[2]}.{method} | {cells} | {'; '.join(notes)} |")
    lines += [
        "",
        "Calls marked `over HTTPS too` are served on `https_listen` as well, behind the same gate: to pages of hosts that",
        "the study names in `[web]`, and to programs that are no page and so send no origin ([web](web.md#nodes)); no other",
        "call is. Health checks and reflection are for everybody who can connect to gRPC. A call that a port does not serve",
        "is refused like one that is not the caller's (`not_your_role`).",
        "",
        "| refusal | when |",
        "|---|---|",
        "| `not_your_role`, `not_the_owner` | the certificate, or its absence, gives none of the roles |",
        "| `no_token` | a token is needed and none came |",
        "| `bad_token` | a token came that was never made, or is revoked |",
        "| `token_expired` | it has expired |",
        "| `wrong_scope` | it does not allow this, or is for another study |",
        "| `wrong_origin` | a page called, over HTTPS, of a host that the study does not name |",
        "| `draining` | the node takes no new work; devices try again by themselves |",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(render_page(), end="")


_DRAINING_MS = 5000


@dataclass(frozen=True)
class Caller:
    """Who is calling: every role that the certificate, the token, or the lack of both gives."""

    roles: frozenset[Role]
    token: Token | None = None


_STRANGER = Caller(frozenset({Role.ANYONE, Role.DEVICE}))
_CALLER: ContextVar[Caller | None] = ContextVar("trimask_caller", default=None)


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

    async def admit(self, method: str, context: Context) -> None:
        """Refuse the call, or remember who makes it for the handler."""
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
            Reason.WRONG_SCOPE, f"this token does not allow {rule.scope}; ask the owner for one that does"
        )
    if allowed or (mutual and rule.by_study and not caller.roles & {Role.OWNER, Role.OPERATOR}):
        return
    if Role.RESEARCHER in rule.roles and not mutual:
        raise Refused(Reason.NO_TOKEN, f"this needs a token of the study's owner with the scope {rule.scope}")
    if rule.roles == {Role.OWNER}:
        raise Refused(Reason.NOT_THE_OWNER, _OWNER_ONLY)
    wanted = " or ".join(role for role in Role if role in rule.roles)
    raise Refused(Reason.NOT_YOUR_ROLE, f"only {wanted} may call this")


_OWNER_ONLY = "only the study owner may call this, on the peer port with its certificate"


def require_owner(config: NodeConfig, context: Context) -> None:
    """Refuse everybody but the owner, known by certificate on the peer port."""
    if config.owner_tls_name not in peer_names(context):
        raise Refused(Reason.NOT_THE_OWNER, _OWNER_ONLY)


def require_access(config: NodeConfig, context: Context, study_id: bytes, scope: str) -> None:
    """Refuse everybody but the owner and researchers with a token for this study and scope."""
    if config.owner_tls_name in peer_names(context):
        return
    token = current_caller().token
    if token is None:
        raise Refused(Reason.NO_TOKEN, f"this needs a token of the study's owner with the scope {scope}")
    if token.study_id != study_id or scope not in token.scopes:
        raise Refused(Reason.WRONG_SCOPE, f"this token does not allow {scope} of this study")


def _kind(role: str) -> Role:
    return Role.COLLECTOR if role == "collector" else Role.RIGHT if role.startswith("R") else Role.LEFT


def _pem(context: Context) -> bytes:
    found = list(context.auth_context().get("x509_pem_cert", []))
    return bytes(found[0]).strip() if found else b""

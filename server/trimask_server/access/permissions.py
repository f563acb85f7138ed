"""Who may call what. One table names every RPC; docs/permissions.md is written from it.

Every call passes the gate before its handler runs: who is calling, and does the table let them. An RPC that is served and
not in the table stops the node from starting, so nothing is ever open because somebody forgot it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from google.protobuf import descriptor_pool

from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_server.access.tokens import Token, TokenStore
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.inbound_limits import Unread
from trimask_server.runtime.logs import study_id_of
from trimask_server.runtime.tls import Context, peer_names, require_role
from trimask_server.settings.config import NodeConfig


class Role(StrEnum):
    """Every kind of caller a node distinguishes."""

    ANYONE = "anyone"
    DEVICE = "device"
    RESEARCHER = "researcher"
    OWNER = "owner"
    OPERATOR = "operator"
    COLLECTOR = "collector"
    RIGHT = "right"
    LEFT = "left"


@dataclass(frozen=True)
class Party:
    """Which parties of the study in a request may make it: in words, and by role.

    `roles` is given the study, this node's role in it and the component that the request names, 0 if it names none.
    """

    words: str
    roles: Callable[[Study, str, int], Iterable[str]]


@dataclass(frozen=True)
class Rule:
    """Who may make one call. `ANYONE` among the roles lets everybody in.

    `scope`: what a researcher's token must allow, of the study in the request. `by_study`: any node's certificate passes,
    because the study that would name it is not registered yet. `party`: which parties of the study in the request (`sent`
    with it, or registered here); `suite`: of which suite that is, and `own`: how this node's role in it begins. The handler
    has what was found from `admitted` and `sent_study`. `new_work`: refused while the node drains. `browser`: a
    participant's call, which the HTTPS port serves too. `note`: what the handler checks further, in words.
    """

    roles: frozenset[Role]
    scope: str = ""
    by_study: bool = False
    sent: bool = False
    party: Party | None = None
    suite: str = ""
    own: str = ""
    new_work: bool = False
    note: str = ""
    browser: bool = False


def _rule(*roles: Role, **more: Any) -> Rule:
    return Rule(frozenset(roles), **more)


def _of_suite(suite: str, own: str, rules: Mapping[str, Rule]) -> dict[str, Rule]:
    return {name: replace(rule, suite=suite, own=own) for name, rule in rules.items()}


def _holders(study: Study, component: int) -> list[str]:
    """The right providers that hold tag keys of a component."""
    held = study.rows.tag_holders
    return [f"R{holder}" for holder in held[component - 1]] if held else []


_ANY_NODE = Party("of the study", lambda study, _own, _k: study.parties)
_ITS_COLLECTOR = Party("", lambda _study, _own, _k: ["collector"])
_OTHER_RIGHT = Party(
    "another one",
    lambda study, own, _k: [role for role in study.right_roles if role != own],
)
_R_K = Party("R_k, its own component", lambda _study, _own, k: [f"R{k}"])
_HOLDER = Party(
    "a right provider that holds tag keys of the component", lambda study, _own, k: _holders(study, k)
)
_OWN_HOLDER = Party(_HOLDER.words, lambda study, own, _k: _holders(study, int(own[1:])))
_UNMASKER = Party("the node that unmasks the component", lambda study, _own, k: [study.rows.unmasking[k - 1]])
_BEFORE_LEFT = Party(
    "to L_1: R_k, its own component; to L_j: L_(j-1) of the study",
    lambda _study, own, k: [f"R{k}" if own == "L1" else f"L{int(own[1:]) - 1}"],
)
_LAST_LEFT = Party("the last left provider of the study", lambda study, _own, _k: [f"L{len(study.left)}"])

_PUBLIC = _rule(Role.ANYONE)
_PARTICIPANT = _rule(Role.ANYONE, browser=True)
_DATASET = _rule(
    Role.ANYONE,
    scope="datasets",
    note='a study with `access = "token"`: a researcher\'s token for it with the scope datasets, or the owner',
)
_OWNER = _rule(Role.OWNER)
_OWNERS_STUDY = _rule(Role.OWNER, sent=True, own="collector")
_OPERATOR = _rule(Role.OPERATOR)
_COLLECTOR = _rule(Role.COLLECTOR, party=_ITS_COLLECTOR)
_COLLECTORS_WORK = replace(_COLLECTOR, new_work=True)
_RIGHT_PEER = _rule(Role.RIGHT, party=_OTHER_RIGHT)
_PROPOSING = _rule(
    Role.COLLECTOR, by_study=True, sent=True, party=_ITS_COLLECTOR,
    note="of the study in the request; `allow_collectors` must have it",
)  # fmt: skip

SERVICES: dict[str, dict[str, Rule]] = {
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
        # A budget is never refilled, so only the owner and people with the owner's token spend it; everybody may see it.
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
        "SubmitMany": _rule(
            Role.DEVICE,
            new_work=True,
            note="a stream: each message passes the gate by itself, each submission in it as in Submit",
        ),
        "GetSealingKeys": _PARTICIPANT,
        "AskSubmission": _rule(
            Role.ANYONE,
            browser=True,
            note="anybody who has the receipt, by the hash in it, or an invitation, by its key",
        ),
        "Withdraw": _rule(
            Role.ANYONE, browser=True, note="anybody who has the withdrawal key, which is on the device alone"
        ),
    },
    "trimask_proto.v1.StudyOwnerService": {
        "SendProposal": _OWNERS_STUDY,
        "GatherApprovals": _OWNER,
        "OpenStudy": _OWNERS_STUDY,
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
        "ListNews": _rule(Role.COLLECTOR, note="of the studies that it collects"),
        "ListPending": _COLLECTOR,
        "PauseIntake": _COLLECTOR,
        "StopIntake": _COLLECTOR,
        "AssignBlock": _COLLECTORS_WORK,
        "CancelBlock": _COLLECTOR,
        "EraseBlock": _COLLECTOR,
        "EraseStudy": _COLLECTOR,
        "FindMissing": _RIGHT_PEER,
    },
    "trimask_proto.v1.RowDrawService": _of_suite(
        "rows",
        "R",
        {
            "FreezeDraw": _COLLECTORS_WORK,
            "JudgeDraw": _COLLECTOR,
            "OpenDraw": _COLLECTOR,
            "SettleDraw": _COLLECTOR,
            "AbandonDraw": replace(_COLLECTOR, note="with the owner's order"),
        },
    ),
    "trimask_proto.v1.RowCheckService": _of_suite(
        "rows",
        "R",
        {"CommitCheck": _COLLECTORS_WORK, "RevealCoin": _COLLECTOR, "DecideCheck": _COLLECTOR},
    ),
    "trimask_proto.v1.RowCheckPeerService": _of_suite(
        "rows",
        "R",
        {"GetOpenings": _RIGHT_PEER, "GetTagOpenings": _rule(Role.RIGHT, party=_OWN_HOLDER)},
    ),
    "trimask_proto.v1.RightMaskingService": _of_suite("rows", "R", {"StartMasking": _COLLECTORS_WORK}),
    "trimask_proto.v1.MomentsService": _of_suite(
        "moments",
        "R",
        {
            "CheckBatch": _COLLECTORS_WORK,
            "CommitTotals": _COLLECTOR,
            "DeliverTotals": _COLLECTOR,
            "EraseTotals": _COLLECTOR,
        },
    ),
    "trimask_proto.v1.MomentsPeerService": _of_suite(
        "moments",
        "R",
        {
            "Introduce": _RIGHT_PEER,
            "GetForms": _RIGHT_PEER,
            "GetVerdict": _RIGHT_PEER,
            "CompareLedger": _RIGHT_PEER,
        },
    ),
    "trimask_proto.v1.LeftMaskingService": _of_suite(
        "rows",
        "L",
        {
            "PushComponent": _rule(Role.RIGHT, Role.LEFT, party=_BEFORE_LEFT),
            "PushMaskedKeys": _rule(Role.RIGHT, Role.LEFT, party=_UNMASKER, note="to L_1"),
        },
    ),
    "trimask_proto.v1.UnmaskingService": _of_suite(
        "rows",
        "",
        {
            "PrepareAttempt": _COLLECTORS_WORK,
            "ShareBlindingKeys": _COLLECTOR,
            "PushRightMask": _rule(Role.RIGHT, party=_R_K),
            "PushTagKeys": _rule(Role.RIGHT, party=_HOLDER),
            "PushMasked": _rule(Role.LEFT, party=_LAST_LEFT),
            "Deliver": _COLLECTOR,
            "ForgetContent": _COLLECTOR,
        },
    ),
    "trimask_proto.v1.CollectionService": _of_suite(
        "rows",
        "collector",
        {
            "ReportHeld": _rule(Role.RIGHT, Role.LEFT, party=_UNMASKER),
            "PushDelivery": _rule(Role.RIGHT, Role.LEFT, party=_UNMASKER),
            "ReportFailure": _rule(Role.RIGHT, Role.LEFT, party=_ANY_NODE),
        },
    ),
    "grpc.health.v1.Health": {"Check": _PUBLIC, "List": _PUBLIC, "Watch": _PUBLIC},
    "grpc.reflection.v1alpha.ServerReflection": {"ServerReflectionInfo": _PUBLIC},
}

TABLE: dict[str, Rule] = {
    f"/{service}/{method}": rule for service, methods in SERVICES.items() for method, rule in methods.items()
}


BROWSER_CALLS: frozenset[str] = frozenset(method for method, rule in TABLE.items() if rule.browser)


_DRAINING_MS = 5000


@dataclass(frozen=True)
class Caller:
    """Who is calling: every role that the certificate, the token, or the lack of both gives."""

    roles: frozenset[Role]
    token: Token | None = None


_STRANGER = Caller(frozenset({Role.ANYONE, Role.DEVICE}))
_CALLER: ContextVar[Caller | None] = ContextVar("trimask_caller", default=None)


class Admitted(NamedTuple):
    """A call about a study: the role in it of the party that makes it ("owner" for its owner), and this node's."""

    study: Study
    role: str
    own: str


_ADMITTED: ContextVar[Admitted] = ContextVar("trimask_admitted")
_SENT: ContextVar[SignedStudy] = ContextVar("trimask_sent_study")


def admitted() -> Admitted:
    """The study of the call that is being handled and who makes it, where the call's rule names a party."""
    return _ADMITTED.get()


def sent_study() -> SignedStudy:
    """The study that came with the call, where its rule says so. Its approvals are not verified."""
    return _SENT.get()


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
        _decide(rule, caller, study_id_of(request), mutual=self._mutual)
        if rule.new_work and self._node.drain.on:
            raise Refused(
                Reason.DRAINING,
                "this node is about to stop and takes no new work; try again soon",
                retry_after_ms=_DRAINING_MS,
            )
        _CALLER.set(caller)
        if isinstance(request, Unread):
            return  # nothing to read a study from; the limits refuse it next, and say why
        if rule.sent:
            _SENT.set(SignedStudy.from_json(request.signed_study))
        if rule.sent or rule.party is not None:
            _ADMITTED.set(self._in_study(rule, request, context))

    def _in_study(self, rule: Rule, request: Any, context: Context) -> Admitted:
        study = _SENT.get().study if rule.sent else self._node.studies.get(study_id_of(request))
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
        if rule.party is None:
            return Admitted(study, "owner", own)
        return Admitted(
            study, require_role(context, study, rule.party.roles(study, own, component or 0)), own
        )

    def covers(self, method: str) -> bool:
        """Whether the table has this call."""
        return method in TABLE

    def for_browsers(self, method: str) -> bool:
        """Whether the HTTPS port serves it too."""
        return method in BROWSER_CALLS

    def require_complete(self, services: Iterable[str]) -> None:
        """Refuse to serve a method that is not in the table, or one of ours that streams one way only: of a stream the gate
        sees each message, which is answered before the next is read."""
        pool = descriptor_pool.Default()
        for name in services:
            for method in pool.FindServiceByName(name).methods:
                if f"/{name}/{method.name}" not in TABLE:
                    raise ConfigError(f"{name}.{method.name} is not in the permission table (permissions.py)")
                if name.startswith("trimask_proto.") and method.client_streaming != method.server_streaming:
                    raise ConfigError(f"{name}.{method.name} streams one way, which the gate does not cover")

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


def _decide(rule: Rule, caller: Caller, study_id: bytes, *, mutual: bool) -> None:
    if Role.ANYONE in rule.roles:
        return
    allowed = caller.roles & rule.roles
    if allowed == {Role.RESEARCHER}:
        _require_scope(caller.token, study_id, rule.scope)
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
    caller = _CALLER.get()
    _require_scope(None if caller is None else caller.token, study_id, scope)


def _require_scope(token: Token | None, study_id: bytes, scope: str) -> None:
    if token is None:
        raise Refused(Reason.BAD_TOKEN, f"this needs a token of the study's owner with the scope {scope}")
    if token.study_id != study_id or scope not in token.scopes:
        said = f"this token does not allow {scope} of this study; ask the owner for one that does"
        raise Refused(Reason.NOT_YOUR_ROLE, said)


def _kind(role: str) -> Role:
    return Role.COLLECTOR if role == "collector" else Role.RIGHT if role.startswith("R") else Role.LEFT


def _pem(context: Context) -> bytes:
    found = list(context.auth_context().get("x509_pem_cert", []))
    return bytes(found[0]).strip() if found else b""

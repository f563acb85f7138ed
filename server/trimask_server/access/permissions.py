"""Who may call what: one table of every RPC, from which the gate decides and docs/permissions.md is written.

`python -m trimask_server.access.permissions` prints the page. An RPC that is served and not in the table stops the node
from starting, so nothing is ever open because somebody forgot it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf import descriptor_pool

from trimask_core.errors import ConfigError

__all__ = ["BROWSER_CALLS", "TABLE", "Role", "Rule", "render_page", "require_complete"]


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
        "Written by `python -m trimask_server.access.permissions` from the table the nodes enforce before a handler runs; a",
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

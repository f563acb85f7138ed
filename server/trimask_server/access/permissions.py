"""Who may call what. One table names every RPC; docs/permissions.md is written from it.

The gate (`gate`) decides by it before a handler runs. An RPC that is served and not in the table stops the node from
starting, so nothing is ever open because somebody forgot it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from google.protobuf import descriptor_pool

from trimask_core.basics.errors import ConfigError
from trimask_core.study.definition import Study
from trimask_server.protocol.plans import right_roles


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

    `scope`: what a researcher's token must allow. `by_study`: any node's certificate passes the gate, because the study
    that would name it is not registered yet; the handler decides by it. `party`: which parties of the study in the
    request; `suite`: of which suite that is, and `own`: how this node's role in it begins; the handler has what was found
    from `admitted`. `new_work`: refused while the node drains. `browser`: a participant's call, which the HTTPS port
    serves too. `note`: what the handler checks further, in words.
    """

    roles: frozenset[Role]
    scope: str = ""
    by_study: bool = False
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
    lambda study, own, _k: [role for role in right_roles(study) if role != own],
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
_OPERATOR = _rule(Role.OPERATOR)
_COLLECTOR = _rule(Role.COLLECTOR, party=_ITS_COLLECTOR)
_COLLECTORS_WORK = replace(_COLLECTOR, new_work=True)
_RIGHT_PEER = _rule(Role.RIGHT, party=_OTHER_RIGHT)
_PROPOSING = _rule(
    Role.COLLECTOR, by_study=True, note="of the study in the request; `allow_collectors` must have it"
)

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


def require_complete(services: Iterable[str]) -> None:
    """Refuse to serve a method that is not in the table, or one of ours that streams one way only: of a stream the gate
    sees each message, which is answered before the next is read."""
    pool = descriptor_pool.Default()
    for name in services:
        for method in pool.FindServiceByName(name).methods:
            if f"/{name}/{method.name}" not in TABLE:
                raise ConfigError(f"{name}.{method.name} is not in the permission table (permissions.py)")
            if name.startswith("trimask_proto.") and method.client_streaming != method.server_streaming:
                raise ConfigError(
                    f"{name}.{method.name} streams one way, which the permission gate does not cover"
                )

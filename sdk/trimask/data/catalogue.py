"""What a collector tells about its studies and datasets, a line each.

In a notebook they show in their own words, escaped, since a study's owner chose some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal

from trimask.errors import ParameterError
from trimask_core.basics.encoding import shown

if TYPE_CHECKING:
    from trimask_proto.v1 import dataset_pb2, study_pb2


class Shown:
    """Gives a class the notebook form of its `str`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


State = Literal["unspecified", "open", "closing", "closed", "paused"]
_STATES: tuple[State, ...] = ("unspecified", "open", "closing", "closed", "paused")


def _state(number: int) -> State:
    return _STATES[number] if 0 <= number < len(_STATES) else "unspecified"


def study_key(study_id: str | bytes) -> bytes:
    """The 32 bytes of a study id given as bytes or hex."""
    try:
        key = bytes.fromhex(study_id) if isinstance(study_id, str) else bytes(study_id)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ParameterError("study_id", "64 hexadecimal digits, or 32 bytes", study_id)
    return key


@dataclass(frozen=True, slots=True)
class StudyInfo(Shown):
    """A study in a line: its id in hex, its title, and its state ("open", "closing", "closed"; "paused" while what is there
    is counted before it closes).

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print([study.title for study in collector.studies()])
    """

    id: str
    title: str
    state: State

    @classmethod
    def from_proto(cls, message: study_pb2.StudySummary) -> StudyInfo:
        """Read the collector's answer."""
        return cls(message.study_id.hex(), message.title, _state(message.state))


@dataclass(frozen=True, slots=True)
class AbandonedBlock:
    """A block that was given up, with its rows; `why` says so in words."""

    id: str
    rows: int
    why: str


@dataclass(frozen=True, slots=True)
class StudyStatus(Shown):
    """How far a study's collection has come. `refusals[role]` is None where the node did not answer.

    `audit_heads[role]` is the signed head of a node's audit log: keep it, and the log can no longer lose an entry unseen.

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print(collector.status(collector.studies()[0].id).published_rows)
    """

    state: State
    pending_rows: int
    masking_rows: int
    pooled_rows: int
    published_rows: int
    pooled_blocks: int
    failed_attempts: int
    releases: int
    note: str
    refusals: Mapping[str, Mapping[str, int] | None]
    audit_heads: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict)
    refused_reports: Mapping[str, int] = field(default_factory=dict)
    """Submissions that the right providers' check refused and erased, by reason."""
    study_refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What each node refused of this study's requests since it was last started, by reason."""
    abandoned_blocks: tuple[AbandonedBlock, ...] = ()
    """Blocks that were given up: nothing of their rows is in a release."""
    invitations_used: Mapping[str, int] = field(default_factory=dict)
    """How many invitations were used at each right provider that answered, as the collector passes it on; empty in an
    open study. All count the same, but for submissions on their way."""
    sent_together: Mapping[str, int] = field(default_factory=dict)
    """How many people came together to each right provider, from an institution that has their answers; none is left out."""

    @classmethod
    def from_proto(cls, message: study_pb2.GetStudyStatusResponse) -> StudyStatus:
        """Read the collector's answer."""
        refusals = {
            node.role: {item.reason: item.count for item in node.counts} if node.reachable else None
            for node in message.refusals
        }
        return cls(
            state=_state(message.state),
            pending_rows=message.pending_rows,
            masking_rows=message.masking_rows,
            pooled_rows=message.pooled_rows,
            published_rows=message.published_rows,
            pooled_blocks=message.pooled_blocks,
            failed_attempts=message.failed_attempts,
            releases=message.releases,
            note=shown(message.note),
            refusals=refusals,
            study_refusals={
                node.role: {item.reason: item.count for item in node.study_counts}
                for node in message.refusals
                if node.study_counts
            },
            audit_heads={
                node.role: {
                    "sequence": node.audit_head.sequence,
                    "hash": node.audit_head.hash.hex(),
                    "signature": node.audit_head.signature.hex(),
                }
                for node in message.refusals
                if node.audit_head.sequence
            },
            refused_reports={item.reason: item.count for item in message.refused_reports},
            abandoned_blocks=tuple(
                AbandonedBlock(item.block_id.hex(), item.rows, shown(item.why))
                for item in message.abandoned_blocks
            ),
            invitations_used=_used(message),
            sent_together={node.role: node.sent_together for node in message.refusals if node.sent_together},
        )


def _used(message: study_pb2.GetStudyStatusResponse) -> dict[str, int]:
    found = {
        node.role: node.invitations_used
        for node in message.refusals
        if node.reachable and node.role.startswith("R")
    }
    return found if any(found.values()) else {}


@dataclass(frozen=True, slots=True)
class DatasetInfo(Shown):
    """A dataset in a line: id, study, title, rows, columns, when it was published.

    Unsigned: what counts is in the manifest, which is checked when it is pulled.

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print([info.id for info in collector.datasets()])
    """

    id: str
    study_id: str
    title: str
    rows: int
    columns: int
    published_ms: int

    @classmethod
    def from_proto(cls, message: dataset_pb2.DatasetSummary) -> DatasetInfo:
        """Read the collector's answer."""
        return cls(
            message.dataset_id, message.study_id.hex(), message.title, message.rows, message.columns,
            message.publish_time_ms,
        )  # fmt: skip

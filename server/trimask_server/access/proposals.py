"""Studies proposed to a node, and what its operator decided: approved (and signed), refused (and why), or waiting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study
from trimask_core.study.signed import Approval, SignedStudy
from trimask_core.suites import payloads_of
from trimask_server.runtime.audit import AuditLog
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.studies import refuse_collected

DecisionWord = Literal["waiting", "approved", "refused"]
_MOST_WAITING = 200
_AROUND_BYTES = 4096  # what a submission has around its values: seal, ids, invitation
_COLUMNS = "signed_study, decision, approval, reason, propose_time_ms"


def refuse_collector(study: Study, allowed: tuple[str, ...]) -> None:
    """Refuse a study whose collector is not in the node's allow-list, by identity (hex) or TLS name."""
    collector = study.collector
    if allowed and collector.identity.hex() not in allowed and collector.tls_name not in allowed:
        raise Refused(
            Reason.COLLECTOR_NOT_ALLOWED,
            f"this node takes no studies of {collector.tls_name}; its operator lists collectors in allow_collectors",
        )


def refuse_size(study: Study, role: str, limit: int) -> None:
    """Refuse a right provider's part in a study whose submissions its public port would not take."""
    if not role.startswith("R"):
        return
    form = payloads_of(study).form_of(study, int(role[1:]))
    largest = 8 * form.values + form.more + _AROUND_BYTES
    if largest > limit:
        raise Refused(
            Reason.STUDY_TOO_LARGE,
            f"a submission may have {largest} bytes; this node takes {limit}: its operator sets max_submission_bytes",
        )


@dataclass(frozen=True)
class StoredProposal:
    """A proposal as it is kept."""

    signed: SignedStudy
    decision: DecisionWord
    approval: str
    reason: str
    propose_time_ms: int


@dataclass(frozen=True)
class Proposals:
    """Proposals on disk."""

    database: Store
    audit: AuditLog

    async def propose(self, signed: SignedStudy, now_ms: int) -> None:
        """Keep a study for the operator; proposing it again changes nothing."""
        study = signed.study

        def write(tx: Transaction) -> None:
            waiting = tx.row("SELECT COUNT(*) FROM proposals WHERE decision = 'waiting'")
            if waiting is not None and waiting[0] >= _MOST_WAITING:
                raise Refused(
                    Reason.TOO_MANY_PROPOSALS, "too many studies wait for this node's operator already"
                )
            if _insert(tx, signed, "waiting", "", "", now_ms):
                self.audit.append(
                    tx, "study_proposed", study=study.id.hex(), collector=study.collector.tls_name
                )

        await self.database.write(write)

    async def approve(self, signed: SignedStudy, approval: Approval, now_ms: int) -> None:
        """Keep the operator's signature; a study it had refused while open accepts submissions again."""
        text = json.dumps(approval.to_dict())

        def write(tx: Transaction) -> None:
            _decide(tx, signed, "approved", text, "", now_ms)
            tx.run(
                "UPDATE studies SET state = CASE WHEN turn % 2 = 1 THEN 'paused' ELSE 'open' END"
                " WHERE study_id = ? AND state = 'refused'",
                (signed.study.id,),
            )
            self.audit.append(tx, "study_approved", study=signed.study.id.hex(), role=approval.role)

        await self.database.write(write)

    async def refuse(self, signed: SignedStudy, reason: str, now_ms: int) -> None:
        """Keep the operator's refusal, and stop the intake of the study if it is open."""

        def write(tx: Transaction) -> None:
            _decide(tx, signed, "refused", "", reason, now_ms)
            tx.run(
                "UPDATE studies SET state = 'refused' WHERE study_id = ? AND state IN ('open', 'paused')",
                (signed.study.id,),
            )
            self.audit.append(tx, "study_refused", study=signed.study.id.hex(), reason=reason)

        await self.database.write(write)

    async def get(self, study_id: bytes) -> StoredProposal | None:
        """One proposal."""
        row = await self.database.read(
            lambda tx: tx.row(f"SELECT {_COLUMNS} FROM proposals WHERE study_id = ?", (study_id,))  # noqa: S608
        )
        return None if row is None else _proposal(row)

    async def all(self) -> list[StoredProposal]:
        """Every proposal, oldest first."""
        rows = await self.database.read(
            lambda tx: tx.rows(f"SELECT {_COLUMNS} FROM proposals ORDER BY propose_time_ms, study_id")  # noqa: S608
        )
        return [_proposal(row) for row in rows]


def _insert(
    tx: Transaction, signed: SignedStudy, decision: str, approval: str, reason: str, now_ms: int
) -> int:
    refuse_collected(tx, signed.study.id)
    return tx.run(
        f"INSERT INTO proposals (study_id, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (study_id) DO NOTHING",  # noqa: S608
        (signed.study.id, signed.without_seed().to_json(), decision, approval, reason, now_ms),
    )


def _decide(
    tx: Transaction, signed: SignedStudy, decision: str, approval: str, reason: str, now_ms: int
) -> None:
    # A study that came by file is registered without ever having been proposed: it has no row until now.
    _insert(tx, signed, decision, approval, reason, now_ms)
    tx.run(
        "UPDATE proposals SET decision = ?, approval = ?, reason = ? WHERE study_id = ?",
        (decision, approval, reason, signed.study.id),
    )


def erase_study(tx: Transaction, study_id: bytes) -> int:
    """Erase a proposal and what was decided on it; the audit log has the decision."""
    tx.run("DELETE FROM proposals WHERE study_id = ?", (study_id,))
    return 0


def _proposal(row: tuple[object, ...]) -> StoredProposal:
    text, decision, approval, reason, time_ms = row
    word: DecisionWord = (
        "approved" if decision == "approved" else "refused" if decision == "refused" else "waiting"
    )
    return StoredProposal(
        SignedStudy.from_json(str(text)), word, str(approval), str(reason), int(str(time_ms))
    )

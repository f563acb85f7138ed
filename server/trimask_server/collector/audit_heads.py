"""The collector remembers every provider's last audit head, so that a log cut short or rewritten is noticed.

A provider's operator holds the key its log is signed with and could write another log. What it cannot do is make the
new one agree with a head somebody else kept.
"""

from __future__ import annotations

from trimask_core.errors import VerificationError
from trimask_core.refusals import Alarm
from trimask_core.study import Party
from trimask_proto.v1 import governance_pb2
from trimask_server.audit.chain import AuditHead
from trimask_server.node.context import NodeContext
from trimask_server.store.interface import Transaction

__all__ = ["keep_audit_head"]


async def keep_audit_head(node: NodeContext, party: Party, message: governance_pb2.AuditHead) -> None:
    """Remember a head; count and record one that goes back, or that has another hash under the same number."""
    head = AuditHead(message.sequence, message.hash, message.signature)
    if not head.sequence:
        return
    try:
        head.verify(party.identity)
    except VerificationError:
        node.refusals.count(Alarm.BAD_AUDIT_HEAD)
        return

    def write(tx: Transaction) -> bool:
        row = tx.row("SELECT sequence, hash FROM witnessed_heads WHERE identity = ?", (party.identity,))
        gone_back = row is not None and (
            head.sequence < row[0] or (head.sequence == row[0] and head.hash != bytes(row[1]))
        )
        if row is None or head.sequence != row[0] or gone_back:
            tx.run(
                "INSERT INTO witnessed_heads (identity, sequence, hash, signature) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (identity) DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash,"
                " signature = excluded.signature",
                (party.identity, head.sequence, head.hash, head.signature),
            )
        if row is not None and gone_back:
            node.audit.append(
                tx,
                "peer_log_rewritten",
                node=party.tls_name,
                had=int(row[0]),
                hash=bytes(row[1]).hex(),
                now=head.sequence,
            )
        return gone_back

    if await node.database.write(write):
        node.refusals.count(Alarm.PEER_LOG_REWRITTEN)
        node.log.error("the audit log of %s was cut short or rewritten", party.tls_name)

"""What a right provider delivers: fixed and committed to first, written down outside the store, then sent.

Asked for the same again, it sends the same bytes. Asked for something that overlaps with what it has delivered, or that
the budget does not cover, it refuses; a store restored from a backup changes neither, because the kept ledger decides.
Deliveries are joint, so each right provider's ledger also says what the others have delivered: one whose store was restored
delivers nothing before the others have compared (docs/theory/verified-moments.md#noise-once).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import verify
from trimask_core.moments.field import pack
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    AddedBatch,
    asked_hash,
    commitment_message,
    commitments_message,
    release_hash,
    values_hash,
)
from trimask_core.study.definition import Study
from trimask_core.submit.release_files import split_ids
from trimask_proto.v1 import moments_pb2
from trimask_proto.v1.moments_pb2_grpc import MomentsPeerServiceStub
from trimask_server.collector.accounting import Price, require_affordable
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.moments.batch_store import (
    BatchStore,
    KeptLedger,
    LedgerHead,
    LockedLedger,
    add_noise,
    add_up,
    blind,
)
from trimask_server.suites.moments.key_exchange import KeyExchange

if TYPE_CHECKING:
    from trimask_theory.moments.moments_question import MomentsQuestion


@dataclass(frozen=True)
class _Fixed:
    """What will be delivered for a request."""

    asked: bytes
    accepted_hash: bytes
    accepted_count: int
    values: list[int] = field(repr=False)
    salt: bytes = field(repr=False)

    @property
    def values_hash(self) -> bytes:
        return values_hash(self.values, self.salt)

    @property
    def in_ledger(self) -> dict[str, str]:
        """What identifies a repeated request: the same reports and the same bytes."""
        return {"accepted": self.accepted_hash.hex(), "values": self.values_hash.hex()}


class Deliveries:
    """The deliveries of this right provider."""

    def __init__(
        self,
        node: NodeContext,
        store: BatchStore,
        key_exchange: KeyExchange,
        kept: Path,
    ) -> None:
        self._node = node
        self._store = store
        self._key_exchange = key_exchange
        self._kept = kept

    async def commit(self, study: Study, totals: moments_pb2.AskedTotals) -> moments_pb2.TotalsCommitment:
        """Fix a delivery, and sign the salted hash of it. Nothing is sent or charged yet."""
        entry = self._entry(study, totals)
        await self._require_ledger(study, bytes.fromhex(entry["asked"]))
        head = await self._store.head(study.id)
        await self._node.workers.run(self._look, study, entry, head)
        fixed = await self._fix(study, totals)
        await self._node.workers.run(self._look, study, entry | fixed.in_ledger, head)
        role = self._node.role_in(study)
        message = commitment_message(
            fixed.asked, role, fixed.accepted_hash, fixed.accepted_count, fixed.values_hash
        )
        return moments_pb2.TotalsCommitment(
            role=role,
            accepted_hash=fixed.accepted_hash,
            accepted_count=fixed.accepted_count,
            values_hash=fixed.values_hash,
            signature=self._node.keys.identity.sign(TOTALS, message),
        )

    async def deliver(
        self,
        study: Study,
        totals: moments_pb2.AskedTotals,
        commitments: Sequence[moments_pb2.TotalsCommitment],
    ) -> moments_pb2.DeliverTotalsResponse:
        """Deliver what was fixed, once every right provider has committed to its own part of the same."""
        fixed = await self._fix(study, totals)
        await self._require_ledger(study, fixed.asked)
        _require_all(study, self._node.role_in(study), fixed, commitments)
        seen = _commitments_seen(study, fixed, commitments)
        entry = self._entry(study, totals) | fixed.in_ledger | {"seen": hashlib.sha256(seen).hexdigest()}
        head = await self._store.head(study.id)
        # The kept ledger first: if this process ends here, the delivery counts as made.
        head = await self._node.workers.run(self._write_down, study, entry, head)
        await self._store.release(study.id, totals.release_number, split_ids(totals.batch_ids), head)
        self._node.log.info(
            "delivered study=%s release=%d reports=%d%s",
            study.id.hex()[:12], totals.release_number, fixed.accepted_count,
            " answer" if totals.question else "",
        )  # fmt: skip
        return moments_pb2.DeliverTotalsResponse(
            values=pack(fixed.values),
            salt=fixed.salt,
            signature=self._node.keys.identity.sign(COMMITMENTS, seen),
        )

    async def end(self, study: Study) -> None:
        """Answers have ended: nothing is delivered any more, whatever store is restored later, and the totals go."""
        if study.protection.budget is None:
            raise Refused(Reason.NO_BUDGET, "this study gives no answers that could end")
        head = await self._store.head(study.id)
        head = await self._node.workers.run(self._write_end, study, head)
        await self._store.erase_totals(study.id, head)
        self._node.log.info("answers ended, totals erased study=%s", study.id.hex()[:12])

    # After a restore

    async def _require_ledger(self, study: Study, asked: bytes) -> None:
        """Refuse if the store was restored and its ledger is not known to be the one this node last ran with."""
        lost = await self._store.ledger_lost(study.id)
        if lost is None:
            return
        if lost:
            raise Refused(Reason.LEDGER_LOST, _LOST)
        delivered = b"".join(await self._node.workers.run(self._delivered, study))
        request = moments_pb2.CompareLedgerRequest(study_id=study.id, delivered=delivered, asked=asked)
        for role in study.right_roles:
            if role != self._node.role_in(study):
                stub = MomentsPeerServiceStub(self._node.peers.channel(study.party(role)))
                await self._node.peers.call(stub.CompareLedger, request)
        await self._store.ledger_compared(study.id)

    async def compare(self, study: Study, caller: str, delivered: Collection[bytes], asked: bytes) -> None:
        """Refuse a restored provider whose ledger lacks what was delivered together with it. What is asked for now may be
        lacking: it may have ended before it wrote that down, and would send the same bytes."""
        own = await self._node.workers.run(self._delivered, study)
        missing = len(set(own) - {*delivered, asked})
        if missing:
            await self._store.ledger_behind(study.id, caller, missing)
            self._node.log.warning(
                "study=%s: the ledger of %s lacks %d deliveries", study.id.hex()[:12], caller, missing
            )
            raise Refused(
                Reason.LEDGER_LOST,
                f"{self._node.role_in(study)} has delivered {missing} times what the ledger of {caller} lacks: that is an "
                "old copy, and nothing more is delivered for this study",
            )

    def _delivered(self, study: Study) -> list[bytes]:
        with KeptLedger(self._kept, study.id).locked() as ledger:
            return [bytes.fromhex(entry["asked"]) for entry in ledger.entries if "asked" in entry]

    async def _fix(self, study: Study, totals: moments_pb2.AskedTotals) -> _Fixed:
        node, layout = self._node, study.moments.layout
        role, secret = node.role_in(study), self._key_exchange.secret(study)
        found = await self._store.totals(study.id, split_ids(totals.batch_ids))
        for batch, _ in found:
            if batch.release_number not in (None, totals.release_number):
                raise Refused(
                    Reason.BATCH_RELEASED, f"batch {batch.batch_id.hex()[:12]} is in another release"
                )
        added = [AddedBatch(batch.batch_id, batch.accepted_hash, batch.accepted_count) for batch, _ in found]
        count = sum(batch.accepted_count for batch in added)
        if not count:
            raise Refused(Reason.TOO_FEW_ROWS, "no report of these batches was accepted")
        if not (totals.question or study.protection.sigma) and count < study.release_rows:
            # Without noise the number of people is all that hides one of them.
            raise Refused(
                Reason.TOO_FEW_ROWS,
                f"a study without noise opens sums of {study.release_rows} people or more, not of {count}",
            )
        asked = asked_hash(study.id, totals.release_number, totals.batch_ids, totals.question)
        accepted = release_hash(study.id, totals.release_number, added)
        what = hashlib.sha256(asked + accepted).digest()
        values = add_up(layout, [total for _, total in found], count, first=role == "R1")
        honest = study.moments.honest_providers
        if totals.question:
            question = _read_question(totals.question, study)
            question.require_room(study, count)
            reports = count if role == "R1" else 0  # who has the constants of every report
            values = [cell.share(values, reports) for cell in question.cells(layout)]
            noises = question.noises(layout, honest)
        else:
            noises = layout.noises(study.protection.sigma, honest)
        values = await node.workers.run(add_noise, values, noises, secret.noise(study.id, what))
        secrets = {
            int(other[1:]): await self._key_exchange.pair_secret(study, other)
            for other in study.right_roles
            if other != role
        }
        blinded = blind(values, int(role[1:]), secrets, what)
        return _Fixed(asked, accepted, count, blinded, secret.salt(study.id, what))

    # The kept ledger

    def _entry(self, study: Study, totals: moments_pb2.AskedTotals) -> dict[str, Any]:
        """What is written down of a delivery: what was asked, of which batches, and what it costs."""
        asked = asked_hash(study.id, totals.release_number, totals.batch_ids, totals.question)
        batches = split_ids(totals.batch_ids)
        if len(set(batches)) != len(batches):
            # Counted twice, a report would have twice the weight that the noise is made for.
            raise Refused(Reason.MALFORMED, "a release has each batch once")
        if (study.protection.budget is not None) != bool(totals.question):
            raise Refused(
                Reason.NO_BUDGET,
                "a study with a budget gives answers and no release; one without gives a release and no answers",
            )
        price = _read_question(totals.question, study).price if totals.question else None
        return {
            "asked": asked.hex(),
            "release": totals.release_number,
            "batches": [batch.hex() for batch in batches],
            "price": price,
        }

    def _look(self, study: Study, entry: dict[str, Any], head: LedgerHead) -> None:
        with KeptLedger(self._kept, study.id).locked() as ledger:
            ledger.require(head)
            _admit(study, ledger, entry, head)

    def _write_down(self, study: Study, entry: dict[str, Any], head: LedgerHead) -> LedgerHead:
        with KeptLedger(self._kept, study.id).locked() as ledger:
            ledger.require(head)
            place = _admit(study, ledger, entry, head)
            ledger.append(entry) if place == len(ledger.entries) else ledger.force()
            if entry["price"] is not None:
                return ledger.head
            # One release at a time: repeating an old one does not bring back which reports were in those after it.
            return ledger.head_at(place + 1) if place == head.entries else head

    def _write_end(self, study: Study, head: LedgerHead) -> LedgerHead:
        with KeptLedger(self._kept, study.id).locked() as ledger:
            ledger.require(head)
            if not _ended(ledger):
                ledger.append(_END)
            return ledger.head


_LOST = (
    "this node's store was restored without the ledger of deliveries it last ran with (`moments` beside its keys), so it "
    "cannot know which reports it has released. It delivers nothing more of this study. The owner closes it and gives up "
    "what waits (`trimask study abandon STUDY.json release-N`, `trimask study end-releases`); other studies go on"
)
_END = {"ended": True}


def _ended(ledger: LockedLedger) -> bool:
    return _END in ledger.entries


def _admit(study: Study, ledger: LockedLedger, entry: dict[str, Any], head: LedgerHead) -> int:
    """The place of an entry in the ledger, its end if it is new.

    Refused if it overlaps with an earlier delivery, is not paid for, or would repeat one with other reports or bytes.
    """
    if _ended(ledger):
        raise Refused(Reason.BUDGET_SPENT, "answers about this study have ended, and the totals are erased")
    for place, old in enumerate(ledger.entries):
        if old["asked"] == entry["asked"]:
            if any(entry.get(name, old[name]) != old[name] for name in ("accepted", "values", "seen")):
                raise Refused(
                    Reason.STORE_RESTORED,
                    "this node delivered something else when it was asked this before, or saw other commitments: its store "
                    "was restored from a backup, or somebody wants a second answer. What it delivered stays the only one",
                )
            return place
    if entry["price"] is None and len(ledger.entries) > head.entries:
        # Which reports were in that release only the newer store knew: they must not be released a second time.
        raise Refused(
            Reason.STORE_RESTORED,
            "this node's store is older than a release it delivered: it was restored from a backup. It makes no "
            "further release of this study",
        )
    number, batches = entry["release"], entry["batches"]
    for old in ledger.entries:
        if (old["release"] == number) != (old["batches"] == batches) or (
            old["release"] != number and set(old["batches"]) & set(batches)
        ):
            raise Refused(Reason.BATCH_RELEASED, "these reports were delivered before, in another release")
    budget = study.protection.budget
    if budget is not None:
        paid = [Price(**old["price"]) for old in ledger.entries]
        require_affordable(budget, paid, Price(**entry["price"]))
    return len(ledger.entries)


def _commitments_seen(
    study: Study, fixed: _Fixed, commitments: Sequence[moments_pb2.TotalsCommitment]
) -> bytes:
    """The message that this provider signs about the commitments it has seen, in the order of the roles."""
    by_role = {item.role: item.values_hash for item in commitments}
    values = [by_role[role] for role in study.right_roles]
    return commitments_message(fixed.asked, fixed.accepted_hash, fixed.accepted_count, values)


def _require_all(
    study: Study, own: str, fixed: _Fixed, commitments: Sequence[moments_pb2.TotalsCommitment]
) -> None:
    """Refuse to deliver unless every right provider has committed to its part of the same reports."""
    by_role = {commitment.role: commitment for commitment in commitments}
    if sorted(by_role) != sorted(study.right_roles) or len(by_role) != len(commitments):
        raise Refused(Reason.MALFORMED, "give one commitment of each right provider")
    for role, item in by_role.items():
        message = commitment_message(
            fixed.asked, role, item.accepted_hash, item.accepted_count, item.values_hash
        )
        verify(study.party(role).identity, TOTALS, message, item.signature, f"the commitment of {role}")
        if item.accepted_hash != fixed.accepted_hash:
            raise Refused(Reason.BATCH_DISAGREED, f"{role} has other reports in this release")
    if by_role[own].values_hash != fixed.values_hash:
        raise Refused(
            Reason.BATCH_DISAGREED, "the commitment named as this provider's is not what it would deliver"
        )


def _read_question(text: bytes, study: Study) -> MomentsQuestion:
    """A question of a study with a budget. Its statistics take half a second to import: not every node is ever asked."""
    from trimask_theory.moments.moments_question import MomentsQuestion

    return MomentsQuestion.read(text, study)

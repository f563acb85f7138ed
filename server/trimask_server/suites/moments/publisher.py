"""From deliveries to a dataset anybody can check: the noisy totals, and what each right provider signed and sent.

The collector gathers commitments of all right providers first, then every delivery, checked and added up.

The collector's releases of the moments suite: which batches each has, and how many reports were accepted in them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import encode_bytes
from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import verify
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    asked_hash,
    commitment_message,
    commitments_message,
    decode,
    read_values,
    values_hash,
)
from trimask_core.study.definition import Study
from trimask_proto.v1 import moments_pb2
from trimask_proto.v1.moments_pb2_grpc import MomentsServiceStub
from trimask_server.collector.publication import (
    Catalogue,
    Tally,
    place_files,
    record_dataset,
    remove_others,
    signed_manifest,
)
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.store import release_table
from trimask_server.store.interface import Store, Transaction
from trimask_server.store.release_table import Release, ReleaseState


@dataclass(frozen=True)
class ReleaseLedger:
    """Beside `collector.ledger`, in the same store: a batch and the release it joins change in one transaction."""

    database: Store
    audit: AuditLog | None = None

    def _record(self, tx: Transaction, kind: str, **details: str | int) -> None:
        if self.audit is not None:
            self.audit.append(tx, kind, **details)

    async def pool(
        self,
        study_id: bytes,
        batch_id: bytes,
        accepted: bytes,
        full_rows: int,
        refused: Mapping[str, int] | None = None,
    ) -> bool:
        """Count a batch that every right provider has added up into the open release; False if it was before.

        `accepted` has a byte for each of its reports, in ascending order of ids: 1 if it was accepted, or 0.
        """
        count_accepted = sum(accepted)

        def write(tx: Transaction) -> bool:
            release = release_table.release_of_planned(tx, study_id, batch_id)
            if release is None:
                return False
            release_table.count_block(tx, study_id, batch_id, release, count_accepted, full_rows, accepted)
            for reason, count in (refused or {}).items():
                tx.run(
                    "INSERT INTO refused_reports (study_id, reason, count) VALUES (?, ?, ?)"
                    " ON CONFLICT (study_id, reason) DO UPDATE SET count = refused_reports.count + excluded.count",
                    (study_id, reason, count),
                )
            self._record(
                tx,
                "batch_pooled",
                study=study_id.hex(),
                batch=batch_id.hex(),
                accepted=count_accepted,
                release=release.number,
            )
            return True

        return await self.database.write(write)

    async def batches(self, study_id: bytes, number: int) -> list[bytes]:
        """The batches of a release, in the order they were planned."""
        blocks = await self.database.read(lambda tx: release_table.blocks_of(tx, study_id, number))
        return [block.block_id for block in blocks]

    async def answered_from(self, study_id: bytes) -> tuple[int, list[bytes]]:
        """The number and the batches of the release that a study with a budget answers from."""
        found = await self.database.read(
            lambda tx: release_table.find_releases(tx, study_id, release_table.ANSWERED_FROM)
        )
        if not found:
            raise Refused(Reason.NOT_YET, "this study has no totals to answer from")
        return found[0].number, await self.batches(study_id, found[0].number)

    async def drop(self, study_id: bytes, batch_id: bytes) -> None:
        """Take a batch that a provider has lost out of its release, for ever."""

        def write(tx: Transaction) -> None:
            if release_table.take_block_out(tx, study_id, batch_id):
                self._record(tx, "block_abandoned", study=study_id.hex(), block=batch_id.hex())

        await self.database.write(write)

    async def note_refusal(self, study_id: bytes, number: int, reason: str) -> None:
        """A right provider refuses the release for good: its owner may give it up."""
        await self.database.write(lambda tx: release_table.note_refusal(tx, study_id, number, str(reason)))

    async def discard(self, study_id: bytes, number: int) -> None:
        """Give a release up: it is never published."""
        await self.database.write(lambda tx: release_table.move(tx, study_id, number, ReleaseState.DISCARDED))

    async def close(self, study_id: bytes, least: int) -> None:
        """At close a short release joins the last full one that is not published; alone, it is complete as it is, if it
        has at least so many reports."""

        def write(tx: Transaction) -> None:
            short, full = release_table.short_and_full(tx, study_id)
            if short is not None and full is not None:
                release_table.join(tx, study_id, full, [short])
            elif short is not None:
                state = ReleaseState.FULL if short.rows >= least else ReleaseState.DISCARDED
                release_table.move(tx, study_id, short.number, state)

        await self.database.write(write)

    async def make_answerable(self, study_id: bytes) -> None:
        """At close of a study with a budget: one release of everything, to answer from."""

        def write(tx: Transaction) -> None:
            found = release_table.find_releases(tx, study_id, release_table.UNPUBLISHED)
            if sum(release.rows for release in found):
                release_table.join(tx, study_id, found[0], found[1:])
                release_table.move(tx, study_id, found[0].number, ReleaseState.ANSWERABLE)

        await self.database.write(write)

    async def publish(
        self, study_id: bytes, number: int, dataset_id: str, manifest: bytes, signature: bytes
    ) -> None:
        """Record a published dataset."""
        await self.database.write(
            lambda tx: record_dataset(tx, self.audit, study_id, number, dataset_id, manifest, signature)
        )


@dataclass(frozen=True)
class Gathered:
    """The noisy totals, with everything that proves them: what each provider committed to and delivered."""

    totals: list[int]
    accepted_hash: bytes
    accepted_count: int
    commitments: Sequence[moments_pb2.TotalsCommitment]
    deliveries: Sequence[moments_pb2.DeliverTotalsResponse]

    def shown(self) -> list[dict[str, Any]]:
        """What each provider signed and delivered, JSON-ready, for anybody who checks the totals."""
        return [
            {
                "role": commitment.role,
                "values": encode_bytes(delivery.values),
                "salt": encode_bytes(delivery.salt),
                "values_hash": commitment.values_hash.hex(),
                "accepted_count": commitment.accepted_count,
                "signature": encode_bytes(commitment.signature),
                "commitments_signature": encode_bytes(delivery.signature),
            }
            for commitment, delivery in zip(self.commitments, self.deliveries, strict=True)
        ]


@dataclass(frozen=True)
class Committed:
    """What every right provider has fixed and signed, and nobody has sent or charged yet."""

    totals: moments_pb2.AskedTotals
    commitments: Sequence[moments_pb2.TotalsCommitment]


async def gather(
    node: NodeContext, study: Study, number: int, batch_ids: Sequence[bytes], question: bytes = b""
) -> Gathered:
    """Ask every right provider; a repeat gets the same answer."""
    return await deliver(node, study, await commit(node, study, number, batch_ids, question))


async def commit(
    node: NodeContext,
    study: Study,
    number: int,
    batch_ids: Sequence[bytes],
    question: bytes = b"",
    timeout_seconds: float = 20.0,
) -> Committed:
    """Have every right provider fix its part; each refuses here what it would not deliver."""
    totals = moments_pb2.AskedTotals(
        study_id=study.id, release_number=number, batch_ids=b"".join(batch_ids), question=question
    )
    asked = asked_hash(study.id, number, totals.batch_ids, question)
    request = moments_pb2.CommitTotalsRequest(totals=totals)
    answers = await call_all(node, study, lambda stub: stub.CommitTotals, request, timeout_seconds)
    commitments = [answer.commitment for answer in answers]
    for role, item in zip(study.right_roles, commitments, strict=True):
        message = commitment_message(asked, role, item.accepted_hash, item.accepted_count, item.values_hash)
        verify(study.party(role).identity, TOTALS, message, item.signature, f"the commitment of {role}")
    if len({(item.accepted_hash, item.accepted_count) for item in commitments}) != 1:
        raise Refused(Reason.BATCH_DISAGREED, "the right providers have different reports in this release")
    return Committed(totals, commitments)


async def deliver(
    node: NodeContext, study: Study, committed: Committed, timeout_seconds: float = 20.0
) -> Gathered:
    """Have every right provider deliver what it fixed, check it against its word, and add up."""
    totals, commitments = committed.totals, committed.commitments
    request = moments_pb2.DeliverTotalsRequest(totals=totals, commitments=commitments)
    deliveries = await call_all(node, study, lambda stub: stub.DeliverTotals, request, timeout_seconds)
    count = _count(study, totals.question)
    values = []
    for item, delivery in zip(commitments, deliveries, strict=True):
        found = read_values(delivery.values, count)
        if values_hash(found, delivery.salt) != item.values_hash:
            raise Refused(
                Reason.BATCH_DISAGREED, f"{item.role} delivered something other than it committed to"
            )
        values.append(found)
    first = commitments[0]
    asked = asked_hash(study.id, totals.release_number, totals.batch_ids, totals.question)
    seen = commitments_message(
        asked, first.accepted_hash, first.accepted_count, [item.values_hash for item in commitments]
    )
    for item, delivery in zip(commitments, deliveries, strict=True):
        identity = study.party(item.role).identity
        verify(identity, COMMITMENTS, seen, delivery.signature, f"what {item.role} saw of the commitments")
    return Gathered(decode(values), first.accepted_hash, first.accepted_count, commitments, deliveries)


async def call_all(
    node: NodeContext,
    study: Study,
    method: Callable[[MomentsServiceStub], Any],
    request: Any,
    timeout_seconds: float,
) -> list[Any]:
    """The answers of all right providers, in their order; when all have ended, the first refusal, with who it was."""
    stubs = {role: MomentsServiceStub(node.peers.channel(study.party(role))) for role in study.right_roles}
    calls = (node.peers.call(method(stub), request, timeout_seconds) for stub in stubs.values())
    answers = await asyncio.gather(*calls, return_exceptions=True)
    for role, error in zip(stubs, answers, strict=True):
        if isinstance(error, Refused):
            raise Refused(error.reason, f"{role}: {error}")
        if isinstance(error, BaseException):
            raise error
    return answers


async def erase_totals(node: NodeContext, study: Study) -> None:
    """Have every right provider erase its share of the totals. Without one share the others are random numbers."""
    request = moments_pb2.EraseTotalsRequest(study_id=study.id)
    await call_all(node, study, lambda stub: stub.EraseTotals, request, 8.0)


def _count(study: Study, question: bytes) -> int:
    layout = study.moments.layout
    if question:
        from trimask_theory.moments.moments_question import (
            MomentsQuestion,  # half a second, for who is asked one
        )

        return len(MomentsQuestion.read(question, study).cells(layout))
    return layout.totals


_FILE = "moments.json"


async def publish(
    node: NodeContext,
    ledger: ReleaseLedger,
    study: Study,
    release: Release,
    batch_ids: Sequence[bytes],
    gathered: Gathered,
    tally: Tally,
) -> str:
    """Publish one release; its dataset id. A repeat after a crash writes the same file again."""
    signed, data = node.studies.signed(study.id), Path(node.config.data)
    dataset_id = f"{study.id.hex()[:12]}-{release.number}"
    text = json.dumps(_content(study, release.number, gathered), indent=1).encode()
    catalogue = Catalogue(ledger.database)
    counted = await catalogue.counted(study.id, release.number)
    files = await node.workers.run(
        place_files, data, dataset_id, _FILE, lambda path: _write(path, text), counted
    )
    release = Release(release.number, gathered.accepted_count, release.blocks, release.state)
    more = {"batch_ids": [batch_id.hex() for batch_id in batch_ids]}
    body, signature = await signed_manifest(node, catalogue, signed, release, dataset_id, files, tally, more)
    await ledger.publish(study.id, release.number, dataset_id, body, signature)
    await node.workers.run(remove_others, data, dataset_id, files[0].sha256)
    node.log.info("published dataset=%s reports=%d batches=%d", dataset_id, release.rows, release.blocks)
    return dataset_id


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _content(study: Study, number: int, gathered: Gathered) -> dict[str, object]:
    firsts = study.moments.layout.firsts
    return {
        "format": "trimask-moments/1",
        "release": number,
        "accepted": gathered.accepted_count,
        "accepted_hash": gathered.accepted_hash.hex(),
        "columns": [column.name for column in study.moments.layout.columns],
        "first": gathered.totals[:firsts],
        "products": gathered.totals[firsts:],
        "deliveries": gathered.shown(),
    }

"""Serving the unmasking node's part, on right and left providers alike.

In the check by tags it sends the first left provider the keys under the right mask.

What an unmasking node keeps of a block, so that a block has one delivered content for ever.

A content is held when this node has unmasked and blinded its component of an attempt; nobody has seen it, and a later
attempt may replace it. It is fixed when the collector asks for it, before the first byte goes out: from then on this node
delivers these bytes, however often it is asked, and unmasks no other attempt at the block. Once the block is pooled (or
given up) the bytes go and the mark stays.

The bytes are blinded, by a key that is forgotten; they are encrypted under the block's data key all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import SEED_BYTES
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import Pairing, SealingKey, require_kind, verify
from trimask_core.rows.arrays import Matrix
from trimask_core.rows.noise_columns import CHECK_DIRECTIONS
from trimask_core.rows.payloads import ELEMENT_BYTES, write_elements
from trimask_core.study.definition import Study
from trimask_core.submit.submission import SUBMISSION_ID_BYTES
from trimask_proto.v1 import common_pb2, left_masking_pb2, unmasking_pb2, unmasking_pb2_grpc
from trimask_proto.v1.collection_pb2 import PushDeliveryRequest, ReportHeldRequest
from trimask_proto.v1.collection_pb2_grpc import CollectionServiceStub
from trimask_proto.v1.left_masking_pb2_grpc import LeftMaskingServiceStub
from trimask_proto.v1.unmasking_pb2 import BlindingKey, BlindingShare
from trimask_server.access.governance import worker_of
from trimask_server.access.permissions import admitted
from trimask_server.runtime.audit import AuditLog
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.tls import Context
from trimask_server.store.data_keys import Vault, block_scope, destroy_keys
from trimask_server.store.interface import Store, Transaction
from trimask_server.suites.rows.attempt_shares import AttemptShares, Frames, attempt_bytes
from trimask_server.suites.rows.check import BlockKeys, mask_keys
from trimask_server.suites.rows.math import (
    PROBES,
    Assembler,
    RightMask,
    blind,
    publishing_noise,
    remove_right_mask,
    slices,
)

Content = NDArray[np.uint64]


@dataclass(frozen=True)
class HeldContents:
    """The table `held_contents`: a row for each component of a block that this node unmasks."""

    database: Store
    vault: Vault
    audit: AuditLog | None = None

    async def fixed(self, study_id: bytes, block_id: bytes) -> int:
        """The number of the attempt whose content this node delivers; 0 while it is free."""
        row = await self.database.read(lambda tx: _fixed(tx, study_id, block_id))
        if row is None:
            return 0
        _refuse_forgotten(row)
        return row[0]

    async def hold(self, attempt: common_pb2.Attempt, component: int, content: Content) -> None:
        """Keep a component's blinded content instead of that of an earlier attempt."""

        def write(tx: Transaction) -> None:
            fixed = _fixed(tx, attempt.study_id, attempt.block_id)
            if fixed is not None:
                _refuse_forgotten(fixed)
                raise Refused(
                    Reason.OUT_OF_STEP, f"this node delivers attempt {fixed[0]} of the block and no other"
                )
            key = self.vault.obtain(tx, attempt.study_id, block_scope(attempt.block_id))
            stored = key.encrypt(content.astype("<u8").tobytes(), _name(attempt, component))
            tx.run(
                "INSERT INTO held_contents (study_id, block_id, component, number, plan_hash, row_count, content, fixed)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0) ON CONFLICT (study_id, block_id, component) DO UPDATE SET"
                " number = excluded.number, plan_hash = excluded.plan_hash, row_count = excluded.row_count,"
                " content = excluded.content",
                (attempt.study_id, attempt.block_id, component, attempt.number, attempt.plan_hash, len(content),
                 stored),
            )  # fmt: skip

        await self.database.write(write)

    async def fix(self, attempt: common_pb2.Attempt, components: set[int]) -> dict[int, Content]:
        """This node's content of a block, by component, from now on that of this attempt. On disk when this returns."""

        def write(tx: Transaction) -> dict[int, Content]:
            rows = tx.rows(
                "SELECT component, number, plan_hash, row_count, content, fixed FROM held_contents"
                " WHERE study_id = ? AND block_id = ?",
                (attempt.study_id, attempt.block_id),
            )
            for row in rows:
                if row[5]:
                    _refuse_forgotten((row[1], row[4] is None))
            held = {row[0] for row in rows if (row[1], row[2]) == (attempt.number, attempt.plan_hash)}
            if held != components:
                raise Refused(
                    Reason.CONTENT_LOST, f"this node does not hold attempt {attempt.number} of the block"
                )
            key = self.vault.find(tx, attempt.study_id, block_scope(attempt.block_id))
            if key is None:
                raise Refused(Reason.CONTENT_LOST, "the key of this block is destroyed")
            first = tx.run(
                "UPDATE held_contents SET fixed = 1 WHERE study_id = ? AND block_id = ? AND fixed = 0",
                (attempt.study_id, attempt.block_id),
            )
            if first and self.audit is not None:
                self.audit.append(
                    tx,
                    "content_fixed",
                    study=attempt.study_id.hex(),
                    block=attempt.block_id.hex(),
                    number=attempt.number,
                    plan=attempt.plan_hash.hex(),
                )
            return {
                row[0]: np.frombuffer(key.decrypt(row[4], _name(attempt, row[0])), dtype="<u8")
                .astype(np.uint64)
                .reshape(row[3], -1)
                for row in rows
            }

        return await self.database.write(write)

    async def forget(self, study_id: bytes, block_id: bytes, components: set[int], *, with_key: bool) -> None:
        """The block is pooled or given up: its content goes, and it is never unmasked here again.

        `with_key` at a node that holds no rows of the block, whose key this is, too.
        """

        def write(tx: Transaction) -> None:
            tx.run_many(
                "INSERT INTO held_contents (study_id, block_id, component, number, plan_hash, row_count, content, fixed)"
                " VALUES (?, ?, ?, 0, ?, 0, NULL, 1) ON CONFLICT (study_id, block_id, component) DO UPDATE SET"
                " content = NULL, fixed = 1",
                [(study_id, block_id, component, b"") for component in sorted(components)],
            )
            if with_key:
                destroy_keys(tx, study_id, [block_scope(block_id)])

        await self.database.write(write)
        await self.database.scrub()

    @staticmethod
    def erase_study(tx: Transaction, study_id: bytes) -> int:
        """Erase a study's contents and marks; no person's submission is among them."""
        tx.run("DELETE FROM held_contents WHERE study_id = ?", (study_id,))
        return 0


def _fixed(tx: Transaction, study_id: bytes, block_id: bytes) -> tuple[int, bool] | None:
    """(number of the attempt, whether its content is gone)."""
    row = tx.row(
        "SELECT number, content IS NULL FROM held_contents WHERE study_id = ? AND block_id = ? AND fixed = 1",
        (study_id, block_id),
    )
    return None if row is None else (int(row[0]), bool(row[1]))


def _refuse_forgotten(fixed: tuple[int, bool]) -> None:
    if fixed[1]:
        raise Refused(Reason.BLOCK_ERASED, "that block is over here")


def _name(attempt: common_pb2.Attempt, component: int) -> bytes:
    return b"content" + component.to_bytes(2, "big") + attempt.number.to_bytes(4, "big") + attempt.plan_hash


TakeMaskedKeys = Callable[[Study, left_masking_pb2.PushMaskedKeysRequest], None]


def read_openings(data: bytes) -> Matrix:
    """What was opened of the rows of a component; nothing in a study without tags."""
    if len(data) % (8 * CHECK_DIRECTIONS):
        raise Refused(Reason.WRONG_SHAPE, f"openings are {CHECK_DIRECTIONS} numbers for each row")
    return np.frombuffer(data, dtype="<f8").reshape(-1, CHECK_DIRECTIONS)


def read_keys(study: Study, request: unmasking_pb2.PushTagKeysRequest) -> BlockKeys:
    """What a right provider holds for the rows of a block."""
    return BlockKeys(_seeds(study, request.keys), _seeds(study, request.check_seeds))


def _seeds(study: Study, data: bytes) -> list[bytes]:
    """One for each row of a block."""
    count, rest = divmod(len(data), SEED_BYTES)
    if rest or not study.rows.block_rows <= count <= study.rows.max_block_rows:
        raise Refused(Reason.WRONG_SHAPE, f"{SEED_BYTES} bytes for each row of a block were expected")
    return [data[at : at + SEED_BYTES] for at in range(0, len(data), SEED_BYTES)]


async def send_masked_keys(
    node: NodeContext,
    study: Study,
    attempt: common_pb2.Attempt,
    k: int,
    make: Callable[[], tuple[Matrix, list[int]]],
    here: TakeMaskedKeys | None,
) -> None:
    """Z B_k, which `make` works out, to the first left provider, or `here` if this node is that one."""
    keys, offsets = await node.workers.run(make)
    first = study.left[0]
    local = here if first.identity == node.keys.identity.public else None
    elements = write_elements(offsets)
    for piece in slices(keys):
        begin, count = piece.first_row * ELEMENT_BYTES, len(piece.values) // (8 * piece.columns)
        request = left_masking_pb2.PushMaskedKeysRequest(
            attempt=attempt,
            component=k,
            slice=piece,
            offsets=elements[begin : begin + count * ELEMENT_BYTES],
        )
        if local is not None:
            local(study, request)
        else:
            stub = LeftMaskingServiceStub(node.peers.channel(first, worker_of(study, attempt, "L1")))
            await node.peers.call(stub.PushMaskedKeys, request)


def unmask_component(study: Study, masked: Matrix, mask: RightMask, seed: bytes) -> NDArray[np.int64]:
    """A X^k on the grid, from A X^k B_k, once its Gram matrix has been checked; with the noise of publishing.

    The noise, of one node at least, is what the guarantee towards the collector takes discrete noise to be Gaussian by
    (docs/theory/calibration.md#discrete-noise).
    """
    values = remove_right_mask(masked, mask)
    if study.rows.publishing_steps:
        values += publishing_noise(study.rows.publishing_steps * study.rows.grid.step, values.shape, seed)
    return study.rows.grid.round(values)


@dataclass
class _Component:
    """What has come for one component."""

    basis: Assembler = field(default_factory=Assembler)
    masked: Assembler = field(default_factory=Assembler)
    mask: RightMask | None = None
    openings: Matrix | None = None
    keys: dict[str, BlockKeys] = field(default_factory=dict)
    """The rows' tag keys, by the right provider that held them."""
    tagged: bool = False
    begun: bool = False


@dataclass
class _Attempt:
    """One attempt's blinding key, the secret with each component's unmasking node, and the components."""

    key: SealingKey | None = None
    secrets: dict[int, bytes] = field(default_factory=dict, repr=False)
    components: dict[int, _Component] = field(default_factory=dict)
    blinded: int = 0


class UnmaskingServicer(unmasking_pb2_grpc.UnmaskingServiceServicer):
    """Serves the collector (keys), right providers (masks) and the last left provider (masked rows)."""

    def __init__(self, node: NodeContext, attempts: AttemptShares, frames: Frames) -> None:
        self._node = node
        self._frames = frames
        self._shares = attempts
        self._attempts = attempts.table(_Attempt)
        self._contents = HeldContents(node.database, node.vault, node.audit)
        self.take_masked_keys: TakeMaskedKeys | None = None
        """Where this node takes tag keys in for the first left provider, if it is that one itself."""

    def forget(self, study_id: bytes, block_id: bytes) -> None:
        """Forget everything about a block."""
        self._attempts.forget(study_id, block_id)

    async def PrepareAttempt(
        self, request: unmasking_pb2.PrepareAttemptRequest, context: Context
    ) -> unmasking_pb2.PrepareAttemptResponse:
        node, (study, _, role) = self._node, admitted()
        fixed = await self._contents.fixed(study.id, request.attempt.block_id)
        if fixed:
            return unmasking_pb2.PrepareAttemptResponse(fixed_number=fixed)
        state = self._attempts.get(request.attempt)
        state.key = state.key or SealingKey.generate(node.source, study.sealing)
        message = attempt_bytes(request.attempt) + role.encode() + state.key.public
        signature = node.keys.identity.sign("blinding-key", message)
        return unmasking_pb2.PrepareAttemptResponse(
            key=BlindingKey(role=role, public_key=state.key.public, signature=signature)
        )

    async def ShareBlindingKeys(
        self, request: unmasking_pb2.ShareBlindingKeysRequest, context: Context
    ) -> unmasking_pb2.ShareBlindingKeysResponse:
        study, _, own = admitted()
        state = self._prepared(request.attempt)
        publics: dict[str, bytes] = {}
        for key in request.keys:
            # Signed by the node itself: a collector that slipped its own key in here could unblind.
            message = attempt_bytes(request.attempt) + key.role.encode() + key.public_key
            identity = study.party(key.role).identity
            verify(identity, "blinding-key", message, key.signature, f"the blinding key of {key.role}")
            require_kind(key.public_key, study.sealing, key.role)
            publics[key.role] = key.public_key
        missing = set(study.rows.unmasking) - set(publics)
        if missing:
            raise Refused(Reason.MALFORMED, f"the blinding key of {min(missing)} is missing")
        assert state.key is not None  # noqa: S101 - for the type checker
        pairing = Pairing(state.key, own, attempt_bytes(request.attempt))
        others = sorted(set(study.rows.unmasking) - {own})
        if study.sealing == "hybrid" and others and not request.shares:
            shares = [(other, pairing.share(other, publics[other])) for other in others]
            return unmasking_pb2.ShareBlindingKeysResponse(
                shares=[BlindingShare(sender=own, receiver=other, sealed=sealed) for other, sealed in shares]
            )
        sent = {share.sender: share.sealed for share in request.shares}
        secrets = {role: pairing.secret(role, publics[role], sent.get(role, b"")) for role in (own, *others)}
        state.secrets = {k: secrets[role] for k, role in enumerate(study.rows.unmasking, 1)}
        for k in list(state.components):
            self._begin_if_complete(study, request.attempt, k)
        return unmasking_pb2.ShareBlindingKeysResponse()

    async def PushRightMask(
        self, request: unmasking_pb2.PushRightMaskRequest, context: Context
    ) -> unmasking_pb2.PushRightMaskResponse:
        self.take_right_mask(admitted().study, request)
        return unmasking_pb2.PushRightMaskResponse()

    async def PushTagKeys(
        self, request: unmasking_pb2.PushTagKeysRequest, context: Context
    ) -> unmasking_pb2.PushTagKeysResponse:
        study, role, _ = admitted()
        self.take_tag_keys(study, request, role)
        return unmasking_pb2.PushTagKeysResponse()

    async def PushMasked(
        self, request: unmasking_pb2.PushMaskedRequest, context: Context
    ) -> unmasking_pb2.PushMaskedResponse:
        self.take_masked(admitted().study, request)
        return unmasking_pb2.PushMaskedResponse()

    def take_right_mask(self, study: Study, request: unmasking_pb2.PushRightMaskRequest) -> None:
        """Take B_k in, from the wire or from this node itself."""
        component = self._component(study, request.attempt, request.component)
        if component.begun or component.mask is not None:
            return
        if len(request.probe_gram) != 8 * PROBES * PROBES:
            raise Refused(Reason.WRONG_SHAPE, f"the probe's Gram matrix must be {PROBES} x {PROBES}")
        component.basis.add(
            request.basis, range(study.rows.block_rows, study.rows.max_block_rows + 1), study.rows.columns
        )
        if component.basis.complete:
            # From here on it is one mask: what keys are put under is what is taken off.
            gram = np.frombuffer(request.probe_gram, dtype="<f8").reshape(PROBES, PROBES)
            component.mask = RightMask(request.frame_seed, component.basis.take(), request.probe_seed, gram)
            component.openings = read_openings(request.openings)
        self._begin_if_complete(study, request.attempt, request.component)

    def take_tag_keys(self, study: Study, request: unmasking_pb2.PushTagKeysRequest, role: str) -> None:
        """Take tag keys in, from the wire or from this node itself."""
        component = self._component(study, request.attempt, request.component)
        if component.begun or component.tagged:
            return
        self._frames.learn(study, request.mask_seed)
        component.keys[role] = read_keys(study, request)
        self._begin_if_complete(study, request.attempt, request.component)

    def take_masked(self, study: Study, request: unmasking_pb2.PushMaskedRequest) -> None:
        """Take rows of A X^k B_k in."""
        component = self._component(study, request.attempt, request.component)
        if component.begun:
            return
        component.masked.add(
            request.slice, range(study.rows.block_rows, study.rows.max_block_rows + 1), study.rows.columns
        )
        self._begin_if_complete(study, request.attempt, request.component)

    def _prepared(self, attempt: common_pb2.Attempt) -> _Attempt:
        state = self._attempts.get(attempt)
        if state.key is None:
            raise Refused(
                Reason.OUT_OF_STEP,
                "this node has not been told of that attempt; it may have been restarted",
            )
        return state

    def _component(self, study: Study, attempt: common_pb2.Attempt, k: int) -> _Component:
        own = study.role_of(self._node.keys.identity.public)
        if not 1 <= k <= len(study.right) or study.rows.unmasking[k - 1] != own:
            raise Refused(Reason.NOT_YOUR_ROLE, f"this node does not unmask component {k}")
        state = self._attempts.get(attempt)
        done = state.components.get(k)
        if done is not None and done.begun:
            return done
        return self._prepared(attempt).components.setdefault(k, _Component())

    def _begin_if_complete(self, study: Study, attempt: common_pb2.Attempt, k: int) -> None:
        state = self._attempts.get(attempt)
        component = state.components[k]
        if component.begun or component.mask is None or component.openings is None:
            return
        holders = study.rows.tag_holders[k - 1] if study.rows.tag_holders else ()
        if holders and not component.tagged and len(component.keys) == len(holders):
            component.tagged = True
            known, held = self._frames.learn(study, b""), [*component.keys.values()]
            keys = partial(mask_keys, known, component.mask, component.openings, held)
            work = partial(send_masked_keys, self._node, known, attempt, k, keys, self.take_masked_keys)
            component.keys = {}
            self._shares.begin(attempt, work, "masking tag keys")
        if not (state.secrets and component.masked.complete):
            return
        component.begun = True
        self._shares.begin(attempt, lambda: self._unmask(study, attempt, state, k), "unmasking")

    async def _unmask(self, study: Study, attempt: common_pb2.Attempt, state: _Attempt, k: int) -> None:
        node, component = self._node, state.components[k]
        if component.mask is None or state.key is None:
            raise Refused(Reason.OUT_OF_STEP, "the right mask of this component has not come")
        seed = node.source.seed()
        values = await node.workers.run(
            unmask_component, study, component.masked.take(), component.mask, seed
        )
        delivery = await node.workers.run(blind, values, k, state.secrets, attempt_bytes(attempt))
        state.components[k] = _Component(begun=True)
        state.blinded += 1
        if state.blinded == len(self._own_components(study)):
            # Nothing seized later may unblind what is kept or was delivered.
            state.key, state.secrets = None, {}
        await self._contents.hold(attempt, k, delivery)
        held = ReportHeldRequest(attempt=attempt, component=k)
        await node.peers.call(self._collection(study, attempt).ReportHeld, held)

    async def Deliver(
        self, request: unmasking_pb2.DeliverRequest, context: Context
    ) -> unmasking_pb2.DeliverResponse:
        study = admitted().study
        contents = await self._contents.fix(request.attempt, self._own_components(study))
        self._shares.begin(
            request.attempt, lambda: self._deliver(study, request.attempt, contents), "delivering"
        )
        return unmasking_pb2.DeliverResponse()

    async def _deliver(
        self, study: Study, attempt: common_pb2.Attempt, contents: dict[int, NDArray[np.uint64]]
    ) -> None:
        node, stub = self._node, self._collection(study, attempt)
        for k, content in contents.items():
            for piece in slices(content):
                request = PushDeliveryRequest(attempt=attempt, component=k, slice=piece)
                await node.peers.call(stub.PushDelivery, request)
            node.log.info(
                "delivered block=%s attempt=%d component=%d", attempt.block_id.hex(), attempt.number, k
            )

    async def ForgetContent(
        self, request: unmasking_pb2.ForgetContentRequest, context: Context
    ) -> unmasking_pb2.ForgetContentResponse:
        study, _, own = admitted()
        if len(request.block_id) != SUBMISSION_ID_BYTES:
            raise Refused(Reason.MALFORMED, f"a block id has {SUBMISSION_ID_BYTES} bytes")
        self.forget(study.id, request.block_id)
        await self._contents.forget(
            study.id, request.block_id, self._own_components(study), with_key=not own.startswith("R")
        )
        return unmasking_pb2.ForgetContentResponse()

    def _own_components(self, study: Study) -> set[int]:
        """The components that this node unmasks."""
        own = self._node.role_in(study)
        return {k for k, role in enumerate(study.rows.unmasking, 1) if role == own}

    def _collection(self, study: Study, attempt: common_pb2.Attempt) -> CollectionServiceStub:
        return CollectionServiceStub(
            self._node.peers.channel(study.collector, worker_of(study, attempt, "collector"))
        )

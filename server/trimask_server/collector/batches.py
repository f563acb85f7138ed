"""Blocks and right providers: what all hold and no block has, and plans bound, released or erased everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import AnyReason, Reason
from trimask_core.study.definition import Study
from trimask_core.study.party import Party
from trimask_core.submit.release_files import plan_hash, plan_message, split_ids, verify_bound
from trimask_proto.v1 import node_pb2, right_batches_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.node_pb2_grpc import NodeServiceStub
from trimask_proto.v1.right_batches_pb2_grpc import RightBatchServiceStub
from trimask_server.collector.ledger import Ledger
from trimask_server.runtime.context import NodeContext
from trimask_server.store.release_table import IN_A_BLOCK, UNPOOLED, Block

_PAGE = 8192
_ACCEPTED, _GONE = 1, 3  # marks of a submission: its check has accepted it; the provider holds it no more


class RightCalls:
    """The calls to one study's right providers about blocks. All of them may be repeated."""

    def __init__(self, node: NodeContext, study: Study) -> None:
        self._node = node
        self._study = study

    def _stub(self, party: Party) -> RightBatchServiceStub:
        return RightBatchServiceStub(self._node.peers.channel(party))

    async def register(self, party: Party) -> None:
        """Hand a provider the study."""
        node = self._node
        signed = node.studies.signed(self._study.id).without_seed().to_json().encode()
        stub = NodeServiceStub(node.peers.channel(party))
        await node.peers.call(stub.RegisterStudy, node_pb2.RegisterStudyRequest(signed_study=signed))

    async def list_pending(self, party: Party, token: str) -> right_batches_pb2.ListPendingResponse:
        """The submissions a provider holds that are in no block, after `token`."""
        request = right_batches_pb2.ListPendingRequest(
            study_id=self._study.id, page_token=token, page_size=_PAGE
        )
        page: right_batches_pb2.ListPendingResponse = await self._node.peers.call(
            self._stub(party).ListPending, request
        )
        return page

    async def pause_intake(self, party: Party, turn: int) -> tuple[int, int]:
        """Have a provider accept nothing and let nothing be withdrawn for now, or go on; the highest turn it was told, and
        while it is paused how many people it counts."""
        request = right_batches_pb2.PauseIntakeRequest(study_id=self._study.id, turn=turn)
        answer = await self._node.peers.call(self._stub(party).PauseIntake, request)
        return int(answer.turn), int(answer.people)

    async def stop_intake(self, party: Party, order: CloseOrder | None) -> None:
        """Have a provider stop accepting submissions, by the owner's order."""
        request = right_batches_pb2.StopIntakeRequest(order=order or CloseOrder(study_id=self._study.id))
        await self._node.peers.call(self._stub(party).StopIntake, request)

    async def assign(self, party: Party, block: Block) -> right_batches_pb2.AssignBlockResponse:
        """Give a provider a block's plan; of a drawn block, its id. It is bound, and signed; or not, for withdrawn rows."""
        request = right_batches_pb2.AssignBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=self._named(block),
            signature=self._signature(block),
        )
        answer: right_batches_pb2.AssignBlockResponse = await self._node.peers.call(
            self._stub(party).AssignBlock, request
        )
        return answer

    async def cancel(self, party: Party, block: Block) -> None:
        """Have a provider free the rows of a plan that was given up."""
        message = plan_message(self._study.id, block.block_id, b"")
        request = right_batches_pb2.CancelBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            signature=self._node.keys.identity.sign("block-cancel", message),
        )
        await self._node.peers.call(self._stub(party).CancelBlock, request)

    async def erase(self, party: Party, block: Block) -> None:
        """Have a provider erase a block, also one it does not know."""
        request = right_batches_pb2.EraseBlockRequest(
            study_id=self._study.id,
            block_id=block.block_id,
            submission_ids=self._named(block),
            signature=self._signature(block),
        )
        await self._node.peers.call(self._stub(party).EraseBlock, request)

    async def erase_study(self, party: Party) -> int:
        """Have a provider erase every row of the study that is in no block; how many there were."""
        request = right_batches_pb2.EraseStudyRequest(study_id=self._study.id)
        answer = await self._node.peers.call(self._stub(party).EraseStudy, request)
        return int(answer.erased_rows)

    def _named(self, block: Block) -> bytes:
        """The ids that a plan names; in the rows suite right providers know them from the draw."""
        return b"" if self._study.suite.name == "rows" else block.submission_ids

    def _signature(self, block: Block) -> bytes:
        message = plan_message(self._study.id, block.block_id, self._named(block))
        return self._node.keys.identity.sign("block-plan", message)


class Intake:
    """One study's submissions on their way to a block, counted page by page."""

    def __init__(self, study: Study, ledger: Ledger, calls: RightCalls) -> None:
        self._study = study
        self._ledger = ledger
        self._calls = calls
        self._held: dict[bytes, int] = {}  # submission id -> which right providers hold it so far, a bit each
        # Those that all providers hold, in the order in which they became complete. (Incomplete ones may be very many.)
        self._ready: dict[bytes, None] = {}
        self._tokens = [""] * len(study.right)
        self._accepted: dict[bytes, int] = {}  # which right providers' check has accepted it, a bit each
        self._begun: set[bytes] = set()  # those in a check that is not decided everywhere
        self.draw_number = 0
        """The highest of a draw that a right provider says it has begun."""
        self._whole = False  # everything was counted after intake had stopped everywhere
        self.stale = False
        """Whether something was planned since everything was counted."""

    def count_anew(self) -> None:
        """Discard the counts: ask every provider again what it holds."""
        self._held.clear()
        self._ready.clear()
        self._accepted.clear()
        self._begun.clear()
        self._tokens = [""] * len(self._study.right)
        self._whole = self.stale = False

    def remove(self, ids: Iterable[bytes]) -> None:
        """Remove submissions that are now in a block."""
        self.stale = True
        for submission_id in ids:
            self._let_go(submission_id)

    def _let_go(self, submission_id: bytes) -> None:
        for counted in (self._held, self._ready, self._accepted):
            counted.pop(submission_id, None)

    @property
    def accepted(self) -> list[bytes]:
        """The complete submissions that the check of every right provider has accepted, oldest first."""
        whole = (1 << len(self._study.right)) - 1
        return [name for name in self._ready if self._accepted.get(name) == whole]

    @property
    def unchecked(self) -> list[bytes]:
        """The complete submissions that no right provider has in a check, oldest first."""
        return [name for name in self._ready if name not in self._accepted and name not in self._begun]

    @property
    def usable(self) -> int:
        """How many complete submissions are accepted, or in no check yet; the others' check was never decided."""
        if not self._accepted and not self._begun:
            return len(self._ready)
        return len(self.accepted) + len(self.unchecked)

    @property
    def half_checked(self) -> set[bytes]:
        """The complete submissions accepted by some right providers and not by others, where they arrived a second time."""
        whole = (1 << len(self._study.right)) - 1
        return {name for name in self._ready if 0 < self._accepted.get(name, 0) < whole}

    async def complete(
        self, known: dict[str, bytes], *, closing: bool, paused: bool = False
    ) -> Collection[bytes] | None:
        """The complete submissions, oldest first, as they are counted now and later.

        `known` are the stores of the right providers, by role, that have been told of every block. None if a provider
        has another store by now: what it lists may have been in a block before. While the study closes, or intake is
        paused, nothing comes or goes, so that everything is counted once, and anew only after `count_anew`.
        """
        last = closing or paused
        if last and self._whole:
            return self._ready.keys()
        whole = (1 << len(self._study.right)) - 1
        planned: set[bytes] = set()
        if last:
            # Intake has stopped, and everything is counted again, so that the last count is the whole one.
            self.count_anew()
        # A block that waits may be bound at some right providers only: the others list its rows.
        for block in await self._ledger.blocks(self._study.id, *(IN_A_BLOCK if last else UNPOOLED)):
            planned.update(split_ids(block.submission_ids))

        order = await self._ledger.close_order(self._study.id) if closing else None

        async def one(index: int, party: Party) -> bool:
            if closing:
                await self._calls.stop_intake(party, order)
            while True:
                page = await self._calls.list_pending(party, self._tokens[index])
                if known.get(f"R{index + 1}") != page.store_generation:
                    return False
                ids = split_ids(page.submission_ids)
                for submission_id, mark in zip(ids, page.checked.ljust(len(ids), b"\0"), strict=False):
                    if mark == _GONE:
                        self._let_go(submission_id)
                        continue
                    if submission_id in planned:
                        continue
                    if mark == _ACCEPTED:
                        self._accepted[submission_id] = self._accepted.get(submission_id, 0) | (1 << index)
                    elif mark:
                        self._begun.add(submission_id)
                    if submission_id in self._ready:
                        continue
                    held = self._held.pop(submission_id, 0) | (1 << index)
                    if held == whole:
                        self._ready[submission_id] = None
                    else:
                        self._held[submission_id] = held
                self.draw_number = max(self.draw_number, page.draw_number)
                if not page.next_page_token:
                    return True
                self._tokens[index] = page.next_page_token

        # All of them end: one that went on reading would move the place where the next count goes on.
        asked = [one(index, party) for index, party in enumerate(self._study.right)]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        trusted = list(answers)
        self._whole = last and all(trusted)
        return self._ready.keys() if all(trusted) else None


T = TypeVar("T")
_WORRYING_ATTEMPTS = 5
PASSING = frozenset({Reason.UNREACHABLE, Reason.DRAINING, Reason.STORE_UNAVAILABLE, Reason.OVERLOADED})
"""Refusals because a node is unreachable or failing (a full disk, for example), not because of the request.

They may last, but rows are never given up for them; the owner can still give a block up.
"""


class Batches:
    """One study's blocks, from plan to erasure."""

    def __init__(
        self, node: NodeContext, study: Study, ledger: Ledger, calls: RightCalls, intake: Intake
    ) -> None:
        self._node = node
        self._study = study
        self._ledger = ledger
        self._calls = calls
        self._intake = intake
        # The signatures of all providers that have bound a block, as they are in the ledger.
        self._kept: dict[bytes, bytes] = {}
        # How many plans in a row were declined for a reason that a new plan cannot remove; and rows reported as withdrawn.
        self._declined = 0
        self._withdrawn: set[bytes] = set()

    async def _each(self, call: Callable[[Party], Awaitable[T]]) -> list[T]:
        return list(await asyncio.gather(*(call(party) for party in self._study.right)))

    async def bind(self, block: Block) -> bool:
        """Whether every right provider has bound the block's rows; a plan that one declined is given up.

        A row may be withdrawn after it was listed, at one provider earlier than at another. The provider that has erased
        it declines the plan, so no work on it begins anywhere, and the others can free its rows.
        """
        try:
            answers = await self._each(lambda party: self._assign(party, block))
        except Refused as error:
            # Waiting does not help, so it counts as an attempt: a plan refused permanently is given up. A provider that
            # was restored and has lost a row or its check is told of every check and block before it is asked again
            # (`driver`).
            if error.reason.final or error.reason in (Reason.UNKNOWN_ROW, Reason.ROW_NOT_CHECKED):
                await self._ledger.next_attempt(block.block_id)
            raise
        withdrawn = {name for answer in answers for name in split_ids(answer.withdrawn_ids)}
        if not withdrawn:
            self._declined = 0
            await self._keep_signatures(block, answers)
            return True
        self._node.log.info("block=%s is given up: withdrawn=%d", block.block_id.hex(), len(withdrawn))
        if block.attempts:
            # Work had begun; only a provider that was restored since can have let a row go. No other plan may have them.
            await self.give_up(block)
        elif self._declined_for_ever(withdrawn):
            names = ", ".join(
                self._study.role_of(party.identity)
                for party, answer in zip(self._study.right, answers, strict=True)
                if answer.withdrawn_ids
            )
            await self.give_up(block, f"{self._declined} plans in a row were declined by {names}")
            self._declined = 0
        elif await self._ledger.cancel(self._study.id, block.block_id):
            await self.release(block)
        return False

    async def _keep_signatures(
        self, block: Block, answers: list[right_batches_pb2.AssignBlockResponse]
    ) -> None:
        """Keep every provider's signature that it has bound these rows: it is published with the release's list."""
        signatures = b"".join(answer.bound_signature for answer in answers)
        if signatures != self._kept.get(block.block_id):
            await self._ledger.note_bound(block.block_id, signatures)
            self._kept[block.block_id] = signatures

    def _declined_for_ever(self, withdrawn: set[bytes]) -> bool:
        """Whether a provider goes on declining what is planned: a new plan leaves withdrawn rows out, so one that names the
        same rows again would hold up the study for ever."""
        if withdrawn <= self._withdrawn:
            self._declined += 1
        self._withdrawn |= withdrawn
        return self._declined >= self._node.config.max_attempts

    async def _assign(self, party: Party, block: Block) -> right_batches_pb2.AssignBlockResponse:
        answer = await self._calls.assign(party, block)
        if answer.bound_signature:
            self._require_own(party, block, answer.bound_signature)
        elif not answer.withdrawn_ids:
            raise Refused(Reason.MALFORMED, f"{self._study.role_of(party.identity)} has signed nothing")
        return answer

    def _require_own(self, party: Party, block: Block, signature: bytes) -> None:
        """Refuse a signature that no researcher could verify: the release would be refused with it."""
        plan = plan_hash(self._study.id, block.block_id, block.submission_ids)
        try:
            verify_bound(self._study, self._study.role_of(party.identity), plan, signature)
        except VerificationError as error:
            raise Refused(Reason.OUT_OF_STEP, str(error)) from None

    async def release(self, block: Block) -> None:
        """Have every right provider free the rows of a plan given up; then they may be planned again."""
        await self._each(lambda party: self._calls.cancel(party, block))
        await self._ledger.mark_released(self._study.id, block.block_id)
        # Count again who holds what: the rows of this plan, except those withdrawn, are pending again.
        self._intake.count_anew()

    async def erase(self, block: Block) -> None:
        """Have every right provider erase a block whose rows are pooled, or that was given up."""
        await self._each(lambda party: self._calls.erase(party, block))
        self._kept.pop(block.block_id, None)
        await self._ledger.mark_erased(self._study.id, block.block_id)

    async def give_up(
        self, block: Block, why: str = "a node was restored from a backup made before it"
    ) -> None:
        """A block can never be pooled: it is erased everywhere next. Status, manifests and audit log name it."""
        if await self._ledger.give_up(self._study.id, block.block_id, why):
            self._node.log.warning("gave up block=%s rows=%d: %s", block.block_id.hex(), block.rows, why)
            await self._ledger.note(
                self._study.id,
                f"block {block.block_id.hex()[:12]} is lost with its {block.rows} rows: {why}. "
                "Nothing of it is in a release",
            )

    async def attempt_failed(self, block: Block, reason: AnyReason) -> bool:
        """Count a failed attempt, and give the block up where waiting does not help; whether it was given up."""
        self._node.metrics.attempts.labels("failed").inc()
        attempts = block.attempts + 1
        if reason not in PASSING and attempts >= self._node.config.max_attempts:
            await self.give_up(block, f"it failed {attempts} times, last: {reason}")
            return True
        if attempts >= _WORRYING_ATTEMPTS:
            await self._ledger.note(
                self._study.id,
                f"block {block.block_id.hex()[:12]} has failed {attempts} times, last: {reason}. "
                "Its rows are safe and it is tried again; the nodes' logs say more",
            )
        return False

    async def attempt_succeeded(self, block: Block) -> None:
        """Remove the note about a block that kept failing."""
        if block.attempts + 1 >= _WORRYING_ATTEMPTS:
            await self._ledger.note(self._study.id, "")

    async def tell_intake(self, state: str, turn: int) -> bool:
        """Have every right provider take submissions in, pause, or stop, whoever does not answer; whether all did."""

        order = await self._ledger.close_order(self._study.id)

        async def tell(party: Party) -> int:
            if state != "closing":
                return (await self._calls.pause_intake(party, turn))[0]
            await self._calls.stop_intake(party, order)
            return turn

        answers = await asyncio.gather(*map(tell, self._study.right), return_exceptions=True)
        highest = max((answer for answer in answers if isinstance(answer, int)), default=turn)
        if highest > turn:  # this collector was restored from a backup made before that
            await self._node.studies.outnumber(self._study.id, highest)
        return answers == [turn] * len(answers)

    async def people(self, turn: int) -> int:
        """How many people have taken part by the right provider that counts fewest; intake is paused."""
        answers = await self._each(lambda party: self._calls.pause_intake(party, turn))
        return min(people for _, people in answers)

    async def erase_unused(self) -> int:
        """Have every right provider erase the study's rows that are in no block; the most that one of them had."""
        return max(await self._each(self._calls.erase_study))

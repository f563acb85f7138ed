"""A right provider checks a batch together with the others: forms exchanged, a verdict signed by all, then added up.

Each step asks and stores before it says anything that follows from it, so that a crash anywhere is a repeat: forms are a
fixed function of what is stored; a decision is on disk before its signature is given out; a batch is added up only when
every signature has been seen, and then its rows are gone.

Of its shares of the five forms nothing depends on what others send; only `verdicts` does. A provider's word about a
report is a fixed linear map of its own share, so a batch may be checked any number of times, in any company, and nothing
more is learned (docs/theory/verified-moments.md#zero-knowledge).
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise, starmap
from operator import mul
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import component_info, seal, verify
from trimask_core.moments.arrays import (
    Elements,
    bases_at,
    column_sums,
    expand_seeds,
    read_vectors,
    sums_of_products,
    times,
)
from trimask_core.moments.field import ELEMENT_BYTES, P, pack, unpack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    FORMS,
    Challenge,
    bucket_of,
    check_share_form,
    derive_challenge,
    supports,
    verdict,
)
from trimask_core.moments.totals import accepted_hash
from trimask_core.study.definition import Study
from trimask_proto.v1 import moments_pb2
from trimask_proto.v1.common_pb2 import Attempt
from trimask_proto.v1.moments_pb2_grpc import MomentsPeerServiceStub
from trimask_server.access.governance import worker_of
from trimask_server.right.rows import RowStore
from trimask_server.right.sealing_keys import CurrentKeyRing
from trimask_server.runtime.context import NodeContext
from trimask_server.suites.moments.batch_store import BatchStore, Decision, StoredBatch, verdict_message
from trimask_server.suites.moments.key_exchange import KeyExchange

FormValues = list[tuple[int, ...]]


def read_shares(payloads: Sequence[bytes], provider: int, providers: int, layout: MomentsLayout) -> Elements:
    """The shares in opened payloads for R_`provider`, a row each; a payload of another form is refused."""
    bodies = [payload[1:] for payload in payloads]
    if provider == providers:
        return read_vectors(bodies, layout.elements)
    for payload in payloads:
        check_share_form(payload, provider, providers, layout.elements)
    return expand_seeds(bodies, layout.elements)


@dataclass(frozen=True)
class BatchChecker:
    """What R_`provider` needs to check reports of one study. The key is the study's challenge key."""

    study_id: bytes
    layout: MomentsLayout
    provider: int
    key: bytes = field(repr=False)

    def form_values(self, ids: Sequence[bytes], shares: Elements) -> FormValues:
        """This provider's share of the five forms for every report, in the order of `ids`."""
        where, parts = _supports(self.layout)
        constants, values = len(FORMS), list[tuple[int, ...]]()
        at_once = max(1, _ELEMENTS_AT_ONCE // len(where))
        for first in range(0, len(ids), at_once):
            some = slice(first, first + at_once)
            under = self._forms([bucket_of(submission_id) for submission_id in ids[some]])
            found = sums_of_products(shares[some].take(where, axis=1), under[:, constants:], parts)
            if self.provider == 1:
                found = (found + under[:, :constants]) % np.uint64(P)
            values += map(tuple, found.tolist())
        return values

    def _forms(self, buckets: Sequence[int]) -> Elements:
        """The forms of each report's bucket: their constants, then their coefficients over `_supports`."""
        held: dict[int, Elements] = {}
        for bucket in set(buckets):
            found = _held_forms.get((self.study_id, self.key, bucket))
            if found is not None:
                held[bucket] = found
        missing = sorted(set(buckets) - held.keys())
        if missing:
            drawn = [derive_challenge(self.key, self.study_id, bucket, self.layout) for bucket in missing]
            for bucket, made in zip(missing, forms_of(self.layout, drawn), strict=True):
                held[bucket] = _held_forms.put((self.study_id, self.key, bucket), made.copy())
        return np.stack([held[bucket] for bucket in buckets])


_ELEMENTS_AT_ONCE = 1 << 15  # what its limbs take stays in a processor's cache
_HELD_BYTES = 128 << 20


@lru_cache(maxsize=8)
def _supports(layout: MomentsLayout) -> tuple[NDArray[np.int64], list[slice]]:
    """The elements the five forms are over, one form after the other, and where each form's are."""
    each = supports(layout)
    ends = [0, *accumulate(map(len, each))]
    where = np.array([index for one in each for index in one], dtype=np.int64)
    return where, list(starmap(slice, pairwise(ends)))


@lru_cache(maxsize=8)
def _linear_terms(layout: MomentsLayout) -> tuple[list[_Term], list[_Term]]:
    """s by the columns' weights, and lambda by those of the linear checks."""
    of_s, *_, of_lambda = supports(layout)
    return (
        _by_turn(of_s, layout.terms),
        _by_turn(of_lambda, [check.terms for check in layout.linear_checks]),
    )


_Term = tuple[NDArray[np.int64], NDArray[np.int64], Elements]


def _by_turn(support: Sequence[int], terms: Sequence[Sequence[tuple[int, int]]]) -> list[_Term]:
    """(places in the support, which weight, coefficients) in as many turns as one element has terms."""
    place_of = {index: place for place, index in enumerate(support)}
    turns: list[list[tuple[int, int, int]]] = []
    seen = Counter[int]()
    for which, one in enumerate(terms):
        for index, coefficient in one:
            if seen[index] == len(turns):
                turns.append([])
            turns[seen[index]].append((place_of[index], which, coefficient % P))
            seen[index] += 1
    return [
        (np.array(places), np.array(which), np.array(coefficients, dtype=np.uint64))
        for places, which, coefficients in (zip(*turn, strict=True) for turn in turns)
    ]


def _add_terms(total: Elements, terms: Sequence[_Term], weights: Elements) -> None:
    for places, which, coefficients in terms:
        total[:, places] = (total[:, places] + times(weights[:, which], coefficients)) % np.uint64(P)


def forms_of(layout: MomentsLayout, challenges: Sequence[Challenge]) -> Elements:
    """The five forms under each of many challenges: what `trimask_core.moments.check.forms` gives, a row each, first the
    constants, then the coefficients over `_supports`."""
    where, (s, quadratic, phi, eta, linear) = _supports(layout)
    of_s, of_lambda = _linear_terms(layout)
    u, u_rho, r, g = (
        np.array([getattr(one, name) for one in challenges], dtype=np.uint64)
        for name in ("u", "u_rho", "r", "g")
    )
    made = np.zeros((len(challenges), len(FORMS) + len(where)), dtype=np.uint64)
    over, u_rho = made[:, len(FORMS) :], u_rho[:, None]
    made[:, 0] = [-sum(map(mul, one.u, (c.offset for c in layout.proved))) % P for one in challenges]
    made[:, -len(where) - 1] = [
        -sum(map(mul, one.g, (check.total for check in layout.linear_checks))) % P for one in challenges
    ]
    _add_terms(over[:, s], of_s, u)
    over[:, s.start + int(np.searchsorted(where[s], layout.rho))] = u_rho[:, 0]
    low, high = np.triu_indices(layout.size)
    hidden, squared = times(u, u_rho), times(u_rho, u_rho)
    both = np.hstack([times(u[:, low], u[:, high]), hidden, squared])
    once = np.hstack([low == high, np.zeros(layout.size, dtype=bool), True])
    over[:, quadratic] = np.where(once, both, 2 * both % np.uint64(P))
    at_bits, at_all = bases_at(layout.bits, r)
    over[:, phi] = np.roll(at_bits, -1, axis=1)  # f(0) stands behind the bits
    over[:, eta] = np.hstack([at_all[:, :1], at_all[:, layout.bits + 1 :]])
    _add_terms(over[:, linear], of_lambda, g)
    return made


class HeldForms:
    """Forms in memory, up to a number of bytes: the ones used least recently go first. For several threads."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: OrderedDict[tuple[bytes, bytes, int], Elements] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, name: tuple[bytes, bytes, int]) -> Elements | None:
        """What is held under a name, now used."""
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
            return self._held.get(name)

    def put(self, name: tuple[bytes, bytes, int], made: Elements) -> Elements:
        """Hold it, and drop others to make room."""
        with self._lock:
            if self._held.setdefault(name, made) is made:
                self.bytes += made.nbytes
            while self.bytes > self._most and len(self._held) > 1:
                self.bytes -= self._held.popitem(last=False)[1].nbytes
        return made


_held_forms = HeldForms(_HELD_BYTES)


def verdicts(by_provider: Mapping[int, FormValues]) -> list[str | None]:
    """For every report, None if it is valid and the reason if not, from every provider's share of the forms."""
    return [
        verdict([sum(parts) % P for parts in zip(*report, strict=True)])
        for report in zip(*by_provider.values(), strict=True)
    ]


def sum_accepted(shares: Elements, accepted: Sequence[bool], layout: MomentsLayout) -> list[int]:
    """The sum of accepted shares, over the bits and products alone: the rest of a report is proof."""
    end = layout.products.stop
    return column_sums(shares[np.array(accepted, dtype=bool), :end])


def pack_values(values: FormValues) -> bytes:
    """For the wire, sealed: five elements a report."""
    return pack([element for report in values for element in report])


def unpack_values(data: bytes, reports: int) -> FormValues:
    """What `pack_values` wrote, for so many reports."""
    if len(data) != ELEMENT_BYTES * len(FORMS) * reports:
        raise VerificationError(f"the forms of {reports} reports take {len(FORMS)} elements each")
    elements = unpack(data)
    return [tuple(elements[first : first + len(FORMS)]) for first in range(0, len(elements), len(FORMS))]


T = TypeVar("T")


def ids_hash(ids: list[bytes]) -> bytes:
    """Names the reports of a batch, so that two providers with different plans notice before they say anything."""
    return hashlib.sha256(b"".join(ids)).digest()


@dataclass(frozen=True)
class _Opened:
    """A bound batch in memory: its ids, this provider's shares, and its shares of the five forms."""

    ids: list[bytes]
    shares: Elements = field(repr=False)
    values: FormValues = field(repr=False)


class Rounds:
    """The rounds of this right provider."""

    def __init__(
        self,
        node: NodeContext,
        rows: RowStore,
        key_ring: CurrentKeyRing,
        store: BatchStore,
        key_exchange: KeyExchange,
    ) -> None:
        self._node = node
        self._rows = rows
        self._key_ring = key_ring
        self._store = store
        self._key_exchange = key_exchange
        self._opened: dict[tuple[bytes, bytes], asyncio.Task[_Opened]] = {}
        self._decisions: dict[tuple[bytes, bytes], asyncio.Task[StoredBatch]] = {}
        self.running = 0

    # What others ask for

    async def sealed_forms(self, study: Study, attempt: Attempt, caller: str, ids: bytes) -> bytes:
        """This provider's shares of the forms, for one other right provider."""
        opened = await self._open(study, attempt.block_id)
        _require_same(opened.ids, ids)
        public = await self._key_exchange.peer_key(study, caller)
        info = _info(study, attempt.block_id, self._node.role_in(study), caller)
        return seal(public, pack_values(opened.values), info)

    async def verdict(self, study: Study, attempt: Attempt, ids: bytes) -> StoredBatch:
        """What this provider decided; it decides now if it has not."""
        stored = await self._store.find(study.id, attempt.block_id)
        if stored is None:
            opened = await self._open(study, attempt.block_id)
            _require_same(opened.ids, ids)
            stored = await self._decide(study, attempt)
        if stored.state == "disagreed":
            raise Refused(
                Reason.BATCH_DISAGREED, "this provider has erased that batch: the signatures differed"
            )
        return stored

    # The whole round

    async def check(self, study: Study, attempt: Attempt) -> StoredBatch:
        """Check a batch with all the others and add it up; what was decided."""
        self.running += 1
        try:
            stored = await self._store.find(study.id, attempt.block_id)
            if stored is None:
                stored = await self._decide(study, attempt)
            if stored.state == "decided":
                await self._agree(study, attempt, stored)
                await self._store.add(study.id, attempt.block_id)
                await self._node.refusals.refresh(self._node.database)
                self._count(attempt, stored)
            elif stored.state == "disagreed":
                raise Refused(
                    Reason.BATCH_DISAGREED, "this provider has erased that batch: the signatures differed"
                )
            return stored
        finally:
            self.running -= 1
            self.forget(study.id, attempt.block_id)

    def _count(self, attempt: Attempt, stored: StoredBatch) -> None:
        self._node.metrics.erased_rows.labels("pooled").inc(
            stored.accepted_count + sum(stored.refused.values())
        )
        self._node.log.info(
            "added batch=%s accepted=%d refused=%d",
            attempt.block_id.hex(), stored.accepted_count, sum(stored.refused.values()),
        )  # fmt: skip

    def forget(self, study_id: bytes, batch_id: bytes) -> None:
        """Drop what is in memory for a batch."""
        self._opened.pop((study_id, batch_id), None)
        self._decisions.pop((study_id, batch_id), None)

    async def _open(self, study: Study, batch_id: bytes) -> _Opened:
        """The batch opened, once however many ask at a time."""
        return await _once(self._opened, (study.id, batch_id), lambda: self._open_now(study, batch_id))

    async def _open_now(self, study: Study, batch_id: bytes) -> _Opened:
        node = self._node
        key = await self._key_exchange.challenge_key(study)
        provider, opened = int(node.role_in(study)[1:]), dict[bytes, bytes]()

        def has(submission_id: bytes, digest: bytes) -> bool:
            info = component_info(study.binding, provider, submission_id)
            payload = self._key_ring.just_opened.take(info, digest)
            if payload is not None:
                opened[submission_id] = payload
            return submission_id in opened  # also when the transaction is run again

        found = await self._rows.start(study.id, batch_id, has=has)
        rows = [(submission_id, sealed, opened.get(submission_id)) for submission_id, sealed in found]
        return await node.workers.run(self._read, study, provider, key, rows)

    def _read(
        self, study: Study, provider: int, key: bytes, rows: list[tuple[bytes, bytes, bytes | None]]
    ) -> _Opened:
        ring, layout = self._key_ring.ring, study.moments.layout
        ids, payloads = [submission_id for submission_id, *_ in rows], []
        for submission_id, sealed, payload in rows:
            info = component_info(study.binding, provider, submission_id)
            payloads.append(payload or ring.open_held(sealed, info, study.sealing))
        shares = read_shares(payloads, provider, len(study.right), layout)
        checker = BatchChecker(study.id, layout, provider, key)
        return _Opened(ids, shares, checker.form_values(ids, shares))

    async def _decide(self, study: Study, attempt: Attempt) -> StoredBatch:
        """The decision on disk, made once however many ask at a time."""
        key = (study.id, attempt.block_id)
        return await _once(self._decisions, key, lambda: self._decide_now(study, attempt))

    async def _decide_now(self, study: Study, attempt: Attempt) -> StoredBatch:
        node, own, batch_id = self._node, self._node.role_in(study), attempt.block_id
        opened = await self._open(study, batch_id)
        others = [role for role in study.right_roles if role != own]
        answers = await asyncio.gather(
            *(self._ask_forms(study, attempt, role, opened.ids) for role in others)
        )
        said = {int(own[1:]): opened.values} | {
            int(role[1:]): values for role, values in zip(others, answers, strict=True)
        }
        found = await node.workers.run(verdicts, said)
        accepted = [reason is None for reason in found]
        total = await node.workers.run(sum_accepted, opened.shares, accepted, study.moments.layout)
        digest = accepted_hash(study.id, batch_id, opened.ids, accepted)
        signature = node.keys.identity.sign("batch-verdict", verdict_message(study.id, batch_id, digest))
        refused = dict(Counter(reason for reason in found if reason is not None))
        decision = Decision(digest, bytes(accepted), refused, signature, total)
        return await self._store.decide(study.id, batch_id, decision)

    async def _ask_forms(self, study: Study, attempt: Attempt, role: str, ids: list[bytes]) -> FormValues:
        request = moments_pb2.GetFormsRequest(attempt=attempt, submission_ids_hash=ids_hash(ids))
        answer = await self._node.peers.call(self._stub(study, attempt, role).GetForms, request)
        info = _info(study, attempt.block_id, role, self._node.role_in(study))
        key = self._key_exchange.own_key(study)
        return unpack_values(key.open(answer.sealed_values, info), len(ids))

    async def _agree(self, study: Study, attempt: Attempt, stored: StoredBatch) -> None:
        """Refuse, and erase the batch, unless every other provider signed the same verdict."""
        own = self._node.role_in(study)
        ids = ids_hash(await self._rows.ids_of(study.id, attempt.block_id))
        for role in study.right_roles:
            if role == own:
                continue
            request = moments_pb2.GetVerdictRequest(attempt=attempt, submission_ids_hash=ids)
            answer = await self._node.peers.call(self._stub(study, attempt, role).GetVerdict, request)
            message = verdict_message(study.id, attempt.block_id, answer.accepted_hash)
            identity = study.party(role).identity
            verify(identity, "batch-verdict", message, answer.signature, f"the verdict of {role}")
            if answer.accepted_hash != stored.accepted_hash:
                await self._store.disagree(study.id, attempt.block_id, role)
                raise Refused(
                    Reason.BATCH_DISAGREED,
                    f"{role} accepted other reports of batch {attempt.block_id.hex()[:12]}; it is erased here",
                )

    def _stub(self, study: Study, attempt: Attempt, role: str) -> MomentsPeerServiceStub:
        channel = self._node.peers.channel(study.party(role), worker_of(study, attempt, role))
        return MomentsPeerServiceStub(channel)


async def _once(
    tasks: dict[tuple[bytes, bytes], asyncio.Task[T]],
    key: tuple[bytes, bytes],
    work: Callable[[], Coroutine[Any, Any, T]],
) -> T:
    """Run work once for all who ask while it runs or is remembered; a failure is not remembered."""
    task = tasks.get(key)
    if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
        task = tasks[key] = asyncio.ensure_future(work())
    return await asyncio.shield(task)  # one who gives up does not end it for the others


def _require_same(ids: list[bytes], digest: bytes) -> None:
    if ids_hash(ids) != digest:
        raise VerificationError(
            "the batch has other reports at the provider that asks: the collector's plans differ"
        )


def _info(study: Study, batch_id: bytes, sender: str, receiver: str) -> bytes:
    return b"trimask/v1/forms\0" + study.binding + batch_id + f"{sender}>{receiver}".encode()

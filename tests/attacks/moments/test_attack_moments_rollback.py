"""Fresh noise for what was delivered before: rollbacks, repeats, batches counted twice, questions nobody paid for."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.errors import TrimaskError, VerificationError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import verify
from trimask_core.moments.field import P
from trimask_core.moments.report import FILE_NAME, MomentsSecret
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    asked_hash,
    commitment_message,
    commitments_message,
)
from trimask_core.study.guarantee import Budget
from trimask_moments import exact_totals, moments_people
from trimask_proto.v1 import moments_pb2
from trimask_rogue import RogueCollector, back_up, batch_name, refused_with, restore
from trimask_server.suites.moments.batch_store import KeptLedger, add_noise
from trimask_theory.moments.moments_question import MomentsQuestion

Rogue = Callable[..., Any]
SIGMA = 3.0


def test_a_restored_provider_repeats_its_bytes_and_makes_no_second_release(
    rogue: Rogue, tmp_path: Path
) -> None:
    """Asked again, a restored provider sends the same bytes; what its ledger outside the store does not know of, it
    delivers nothing for, whatever the collector says (docs/theory/verified-moments.md#noise-once).
    """
    collector, _ = rogue(sigma=SIGMA)
    ids = collector.pending("R1")
    first, second = collector.add("first", ids[:6]), collector.add("second", ids[6:])
    back_up(collector.lab, "R2", tmp_path / "backup")
    asked = collector.totals(1, [first])
    delivered = collector.release(asked)
    restore(collector.lab, "R2", tmp_path / "backup")
    assert collector.release(asked) == delivered
    # The repeat has shown the store which reports those were, so the other ones may be released...
    other = collector.totals(2, [second])
    answer = collector.release(other)
    # ...once.
    restore(collector.lab, "R2", tmp_path / "backup")
    with refused_with("store_restored"):
        collector.commit("R2", collector.totals(3, [second]))
    assert collector.release(other) == answer


def test_the_same_batch_is_not_released_over_other_reports_after_a_restore(
    rogue: Rogue, tmp_path: Path
) -> None:
    """Noise goes with who was accepted, and a rollback buys no second release
    (docs/theory/verified-moments.md#noise-once). Under one batch id, the collector and R1 give R2, restored from
    before the batch, other reports than before; the ledger outside the store knows that they are others.
    """
    collector, _ = rogue(sigma=SIGMA)
    back_up(collector.lab, "R1", tmp_path / "R1.backup")  # R1 is with the collector: it goes back as well
    back_up(collector.lab, "R2", tmp_path / "R2.backup")
    ids = collector.pending("R1")
    batch = collector.add("batch", ids)
    asked = collector.totals(1, [batch])
    delivered = collector.release(asked)
    for name in ("R1", "R2"):
        restore(collector.lab, name, tmp_path / f"{name}.backup")
    shutil.rmtree(collector.lab.folder / "R1" / "moments")
    collector.assign(batch, ids[1:])  # all but the one they are after
    collector.check(batch)
    collector.commit("R1", asked)
    with refused_with("store_restored"):
        collector.commit("R2", asked)
    with refused_with("store_restored"):
        collector.commit("R2", collector.totals(2, [batch]))
    assert len(delivered) == 2


def test_repeating_an_old_release_does_not_hide_a_rollback(rogue: Rogue, tmp_path: Path) -> None:
    """A provider restored to before a release it delivered delivers nothing
    (docs/theory/verified-moments.md#noise-once). R2's store goes back to before release 2; the repeat of release 1
    must not count as having caught up, or the reports of release 2 could be planned anew and released with fresh
    noise.
    """
    collector, _ = rogue(sigma=SIGMA)
    ids = collector.pending("R1")
    first = collector.add("first", ids[:6])
    one = collector.totals(1, [first])
    delivered = collector.release(one)
    for name in ("R1", "R2"):
        back_up(collector.lab, name, tmp_path / f"{name}.backup")
    two = collector.totals(2, [collector.add("second", ids[6:])])
    collector.release(two)
    for name in ("R1", "R2"):
        restore(collector.lab, name, tmp_path / f"{name}.backup")
    assert collector.release(one) == delivered
    again = collector.add("anew", ids[7:])
    with refused_with("store_restored"):
        collector.commit("R2", collector.totals(2, [again]))
    with refused_with("store_restored"):
        collector.commit("R2", collector.totals(3, [again]))


def test_an_old_copy_of_the_kept_ledger_is_refused(rogue: Rogue) -> None:
    """The ledger of releases lies outside the store (docs/theory/verified-moments.md#noise-once). Neither an empty
    folder nor an old copy of the ledger, nor one that was written anew, makes a provider deliver.
    """
    collector, _ = rogue(sigma=SIGMA)
    ids = collector.pending("R1")
    batches = [collector.add(str(i), ids[i : i + 4]) for i in (0, 4, 8)]
    asked = [collector.totals(i + 1, [batch]) for i, batch in enumerate(batches)]
    folder = collector.lab.folder / "R2" / "moments"
    delivered = [collector.release(asked[0])]
    shutil.copytree(folder, folder.with_name("old"))
    delivered.append(collector.release(asked[1]))
    shutil.move(folder, folder.with_name("kept"))
    for copy in ("nothing", "old"):
        if copy == "old":
            shutil.rmtree(folder)
            shutil.copytree(folder.with_name("old"), folder)
        for totals in asked:
            with refused_with("ledger_lost"):
                collector.commit("R2", totals)
    with KeptLedger(folder.parent, collector.study.id).locked() as ledger:
        ledger.append(ledger.entries[0] | {"asked": "00" * 32, "release": 9, "batches": []})
    with refused_with("ledger_lost"):
        collector.commit("R2", asked[2])
    shutil.rmtree(folder)
    shutil.move(folder.with_name("kept"), folder)
    assert [collector.release(totals) for totals in asked[:2]] == delivered
    collector.release(asked[2])


def test_reports_are_released_once_and_counted_once(rogue: Rogue) -> None:
    """A batch is in one release at most, for ever, and the noise is made for a record that moves a sum by its own
    product once (docs/theory/verified-moments.md#noise). A batch named twice would be released with half the noise
    it needs.
    """
    collector, _ = rogue(sigma=SIGMA)
    ids = collector.pending("R1")
    first, second = collector.add("first", ids[:6]), collector.add("second", ids[6:])
    for twice in ([first, first], [first, second, first]):
        with refused_with("malformed"):
            collector.commit("R2", collector.totals(1, twice))
    collector.release(collector.totals(1, [first]))
    for number, batches in ((1, [first, second]), (1, [second]), (2, [first]), (2, [second, first])):
        with refused_with("batch_released"):
            collector.commit("R2", collector.totals(number, batches))
    with refused_with("batch_lost"):
        collector.commit("R2", collector.totals(2, [batch_name("never")]))


def test_another_secret_draws_no_second_noise(rogue: Rogue) -> None:
    """The key of the noise lies outside the store (docs/theory/verified-moments.md#noise-once). A provider whose
    moments.key is lost or replaced delivers nothing, neither again nor anew, until the file is back.
    """
    collector, _ = rogue(sigma=SIGMA)
    ids = collector.pending("R1")
    first, second = collector.add("first", ids[:6]), collector.add("second", ids[6:])
    asked = collector.totals(1, [first])
    delivered = collector.release(asked)
    key = collector.lab.folder / "R2" / FILE_NAME
    kept = key.read_text()
    for replaced in (SystemRandom().seed().hex(), ""):
        collector.lab.stop("R2")
        key.write_text(replaced) if replaced else key.unlink()
        collector.lab.start("R2")
        for totals in (asked, collector.totals(2, [second])):
            with refused_with("ledger_lost"):
                collector.commit("R2", totals)
    collector.lab.stop("R2")
    key.write_text(kept)
    collector.lab.start("R2")
    assert collector.release(asked) == delivered


def test_noise_and_salts_are_of_the_providers_secrets(rogue: Rogue) -> None:
    """What is opened is the exact totals plus noise that nobody without the secrets can compute, and commitments are salted
    with what nobody else can guess (docs/theory/verified-moments.md#noise-once): both are the function of `moments.key` that
    `server/moments/test_moments_totals.py` shows to differ by secret, study and what is asked.
    """
    collector, signed = rogue(sigma=SIGMA)
    study, people = signed.study, moments_people(12)
    asked = collector.totals(1, [collector.add("batch", collector.pending("R1"))])
    commitments = [collector.commit(role, asked) for role in collector.roles]
    sent = [collector.delivery(role, asked, commitments) for role in collector.roles]
    what = hashlib.sha256(
        asked_hash(study.id, 1, asked.batch_ids, b"") + commitments[0].accepted_hash
    ).digest()
    secrets = [MomentsSecret.load(collector.lab.folder / role) for role in collector.roles]
    assert [delivery.salt for delivery in sent] == [secret.salt(study.id, what) for secret in secrets]
    first, products = exact_totals(study, people)
    noises = study.moments.layout.noises(SIGMA, study.moments.honest_providers)
    expected = [total << noise.shift for total, noise in zip([*first, *products], noises, strict=True)]
    for secret in secrets:
        drawn = add_noise([0] * len(noises), noises, secret.noise(study.id, what))
        expected = [(value + noise) % P for value, noise in zip(expected, drawn, strict=True)]
    assert [value % P for value in collector.opened([delivery.values for delivery in sent])] == expected


def test_without_noise_no_sum_of_fewer_people_is_opened(rogue: Rogue) -> None:
    """Without noise the number of people is all that hides one of them."""
    collector, _ = rogue(sigma=0.0, release_rows=11)
    ids = collector.pending("R1")
    short, rest = collector.add("short", ids[:10]), collector.add("rest", ids[10:11])
    for role in collector.roles:
        with refused_with("too_few_rows"):
            collector.commit(role, collector.totals(1, [short]))
    assert all(collector.commit(role, collector.totals(1, [short, rest])) for role in collector.roles)


@pytest.mark.parametrize("what", ["file", "folder"])
def test_nothing_is_sent_before_the_ledger_is_on_disk(
    rogue: Rogue, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A delivery that a power failure would undo is not answered: the ledger and its name are forced to disk first, at a
    repeat too. Forcing fails here, as on a disk that is about to go.
    """
    collector, _ = rogue(sigma=SIGMA)
    asked = collector.totals(1, [collector.add("batch", collector.pending("R1"))])
    commitments = [collector.commit(role, asked) for role in collector.roles]
    honest, failing = os.fsync, True
    ledger = collector.lab.folder / "R2" / "moments"
    broken = {"file": ledger / f"{collector.study.id.hex()}.ledger", "folder": ledger}[what]

    def fsync(descriptor: int) -> None:
        if failing and Path(f"/proc/self/fd/{descriptor}").readlink() == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        honest(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(TrimaskError):
            collector.deliver("R2", asked, commitments)
        assert not _entries(collector, "R2")
    failing = False
    sent = collector.deliver("R2", asked, commitments)
    failing = True
    with pytest.raises(TrimaskError):
        collector.deliver("R2", asked, commitments)
    failing = False
    assert collector.deliver("R2", asked, commitments) == sent


# The last sender, with the collector


def test_nobody_delivers_before_everybody_has_committed(rogue: Rogue) -> None:
    """Everybody commits to its total before anybody sends one: the last to send could otherwise choose the result
    (docs/theory/verified-moments.md#totals). A commitment left out, given twice, forged or swapped is refused.
    """
    collector, _ = rogue(right=3, sigma=SIGMA)
    ids = collector.pending("R1")
    first, second = collector.add("first", ids[:6]), collector.add("second", ids[6:])
    asked, other = collector.totals(1, [first]), collector.totals(2, [second])
    good = [collector.commit(role, asked) for role in collector.roles]
    elsewhere = [collector.commit(role, other) for role in collector.roles]

    def altered(item: Any, **changes: Any) -> Any:
        made = type(item)()
        made.CopyFrom(item)
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    bad = {
        "none": [],
        "one left out": good[:2],
        "one twice": [good[0], good[1], good[1]],
        "of another release": [good[0], good[1], elsewhere[2]],
        "forged": [good[0], good[1], altered(good[2], values_hash=bytes(32))],
        "unsigned": [good[0], good[1], altered(good[2], signature=b"")],
        "under another name": [good[0], good[1], altered(good[1], role="R3")],
        "over other reports": [good[0], good[1], altered(good[2], accepted_hash=bytes(32))],
    }
    for what, commitments in bad.items():
        for role in ("R1", "R2"):
            with refused_with("malformed", "batch_disagreed", "bad_signature", "failed_verification"):
                collector.deliver(role, asked, commitments)
            assert not (collector.lab.folder / role / "moments").exists() or not _entries(collector, role), (
                what
            )
    # R3 commits to something else in R1's name: R1 knows what it would deliver.
    with refused_with("malformed", "batch_disagreed", "bad_signature", "failed_verification"):
        collector.deliver("R1", asked, [altered(good[2], role="R1"), good[1], good[2]])
    assert collector.deliver("R1", asked, good)


def test_a_second_commitment_comes_too_late(rogue: Rogue) -> None:
    """R1 and the collector know what R2 delivered, and would have another total: R1 signs a second commitment, which only
    R2 could contradict. R2 has named the commitments it saw in its delivery, and names no others.
    """
    collector, signed = rogue(right=2, sigma=SIGMA)
    asked = collector.totals(1, [collector.add("first", collector.pending("R1"))])
    first, second = (collector.commit(role, asked) for role in collector.roles)
    sent = collector.delivery("R2", asked, [first, second])
    other = hashlib.sha256(b"a total R1 would rather see").digest()
    named = asked_hash(signed.study.id, 1, asked.batch_ids)
    message = commitment_message(named, "R1", first.accepted_hash, first.accepted_count, other)
    late = moments_pb2.TotalsCommitment(
        role="R1",
        accepted_hash=first.accepted_hash,
        accepted_count=first.accepted_count,
        values_hash=other,
        signature=collector.lab.key("R1").sign(TOTALS, message),
    )
    with refused_with("store_restored"):
        collector.delivery("R2", asked, [late, second])
    seen = [
        commitments_message(named, first.accepted_hash, first.accepted_count, [value, second.values_hash])
        for value in (first.values_hash, other)
    ]
    identity = signed.study.party("R2").identity
    verify(identity, COMMITMENTS, seen[0], sent.signature, "what R2 saw")
    with pytest.raises(VerificationError):
        verify(identity, COMMITMENTS, seen[1], sent.signature, "what R2 saw")
    assert collector.delivery("R2", asked, [first, second]) == sent


def _entries(collector: RogueCollector, role: str) -> list[dict[str, Any]]:
    with KeptLedger(collector.lab.folder / role, collector.study.id).locked() as ledger:
        return ledger.entries


# Questions


def ask(kind: Any, columns: tuple[str, ...], mu: float) -> bytes:
    """A question in its canonical form."""
    return MomentsQuestion(kind, columns, mu=mu).canonical()


def test_a_question_is_charged_once_and_nobody_overspends(rogue: Rogue, tmp_path: Path) -> None:
    """A question has one id, is charged at each provider before anything is sent and answered with the same bytes,
    also after restores; one honest provider's ledger bounds what is learned
    (docs/theory/verified-moments.md#ledgers). There is no collector's ledger in this test at all, and R1's is gone.
    """
    collector, _ = rogue(budget=Budget(mu=1.0))
    batch = collector.add("batch", collector.pending("R1"))
    for name in ("R1", "R2"):
        back_up(collector.lab, name, tmp_path / f"{name}.backup")
    with refused_with("no_budget"):
        collector.commit("R2", collector.totals(1, [batch]))  # no release beside the answers
    asked = collector.totals(1, [batch], ask("sums", ("age", "bmi"), 0.8))
    answer = collector.release(asked)
    assert collector.release(asked) == answer
    assert [entry["price"]["mu"] for entry in _entries(collector, "R2")] == [0.8]
    # 0.8^2 + 0.6^2 = 1; 0.8^2 + 0.61^2 is more.
    dear = collector.totals(1, [batch], ask("moments", ("age",), 0.61))
    restore(collector.lab, "R1", tmp_path / "R1.backup")
    shutil.rmtree(collector.lab.folder / "R1" / "moments")
    with refused_with("ledger_lost"):  # R2 knows that they have answered
        collector.commit("R1", dear)
    for attempt in range(2):
        with refused_with("budget_spent"):
            collector.commit("R2", dear)
        with refused_with("batch_released"):  # nor as the release of another number
            collector.commit("R2", collector.totals(2, [batch], ask("sums", ("age",), 0.1)))
        if not attempt:
            restore(collector.lab, "R2", tmp_path / "R2.backup")
    assert collector.release(asked) == answer
    collector.release(collector.totals(1, [batch], ask("sums", ("age", "bmi"), 0.6)))
    with refused_with("budget_spent"):
        collector.commit("R2", collector.totals(1, [batch], ask("sums", ("age",), 1e-3)))
    assert len(_entries(collector, "R2")) == 2

"""Pooling: second moments add up, a block is folded in once, and a release is a Haar frame of the factor."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.rows.arrays import Matrix
from trimask_server.collector.ledger import Ledger
from trimask_server.collector.publication import Catalogue
from trimask_server.store.data_keys import KeyRing, Vault
from trimask_server.store.database import COLLECTOR
from trimask_server.suites.rows.math import factor_from_bytes, factor_to_bytes, fold, masked_release
from trimask_server.suites.rows.suite import FactorLedger

STUDY = b"s" * 32


@pytest.fixture
def factors(make_store: Any) -> FactorLedger:
    return FactorLedger(make_store(COLLECTOR), Vault(KeyRing.generate()))


def _block(seed: int, rows: int = 20, columns: int = 4) -> Matrix:
    return np.random.default_rng(seed).normal(size=(rows, columns))


def test_factor_has_the_moments_of_all_blocks() -> None:
    blocks = [_block(i, rows) for i, rows in enumerate((20, 3, 50))]
    factor = None
    for block in blocks:
        factor = fold(factor, block)
        assert factor.shape == (4, 4)
    assert factor is not None
    assert np.allclose(factor.T @ factor, sum(b.T @ b for b in blocks), rtol=1e-13)


def test_factor_of_fewer_rows_than_columns_is_padded() -> None:
    factor = fold(None, _block(0, rows=2))
    assert factor.shape == (4, 4)
    assert np.allclose(factor.T @ factor, _block(0, rows=2).T @ _block(0, rows=2))


def test_factor_survives_the_store() -> None:
    factor = fold(None, _block(1))
    assert (factor_from_bytes(factor_to_bytes(factor)) == factor).all()


@pytest.mark.parametrize("rows", [4, 5, 300])
def test_release_has_the_factors_moments(rows: int) -> None:
    factor = fold(None, _block(2))
    release = masked_release(factor, rows, b"r" * 32)
    assert release.shape == (rows, 4)
    assert np.allclose(release.T @ release, factor.T @ factor, rtol=1e-12)


def test_block_is_pooled_once(factors: FactorLedger) -> None:
    async def course() -> None:
        ledger = Ledger(factors.database)
        await ledger.plan(STUDY, b"b" * 16, [bytes([i]) * 16 for i in range(20)])
        assert await factors.pool(STUDY, b"b" * 16, _block(3), release_rows=30)
        assert not await factors.pool(STUDY, b"b" * 16, _block(3), release_rows=30)
        (release,) = await Catalogue(factors.database).releases(STUDY)
        assert (release.rows, release.state) == (20, "open")
        with pytest.raises(Refused, match="never planned"):
            await factors.pool(STUDY, b"c" * 16, _block(3), release_rows=30)

    asyncio.run(course())


def test_releases_fill_and_the_short_one_joins_the_last(factors: FactorLedger) -> None:
    async def course() -> None:
        ledger = Ledger(factors.database)
        for i in range(5):
            await ledger.plan(STUDY, bytes([i]) * 16, [bytes([i, j]) * 8 for j in range(20)])
            await factors.pool(STUDY, bytes([i]) * 16, _block(i), release_rows=40)
        assert [(r.rows, r.state) for r in await Catalogue(factors.database).releases(STUDY)] == [
            (40, "full"),
            (40, "full"),
            (20, "open"),
        ]
        await factors.merge_short_release(STUDY)
        await factors.merge_short_release(STUDY)
        assert [(r.rows, r.blocks) for r in await Catalogue(factors.database).releases(STUDY)] == [
            (40, 2),
            (60, 3),
        ]
        factor = await factors.factor(STUDY, 2)
        assert np.allclose(factor.T @ factor, sum(_block(i).T @ _block(i) for i in (2, 3, 4)), rtol=1e-12)

    asyncio.run(course())


def test_published_release_has_no_factor_left(factors: FactorLedger) -> None:
    async def course() -> None:
        ledger = Ledger(factors.database)
        await ledger.plan(STUDY, b"b" * 16, [b"i" * 16])
        await factors.pool(STUDY, b"b" * 16, _block(3), release_rows=20)
        await factors.publish(STUDY, 1, "x-1", b"{}", b"sig")
        with pytest.raises(Refused, match="no factor"):
            await factors.factor(STUDY, 1)
        assert [d[0] for d in await Catalogue(factors.database).datasets(STUDY)] == ["x-1"]

    asyncio.run(course())


def test_attempt_numbers_never_repeat(factors: FactorLedger) -> None:
    async def course() -> list[int]:
        ledger = Ledger(factors.database)
        await ledger.plan(STUDY, b"b" * 16, [b"i" * 16])
        return [await ledger.next_attempt(b"b" * 16) for _ in range(3)]

    assert asyncio.run(course()) == [1, 2, 3]

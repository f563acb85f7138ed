"""Random streams: blinding, exact discrete noise, and normals two machines agree on."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from bench.measure import best_seconds, race
from bench.results import Result, Settings, share_of_limit
from trimask_core.noise import DiscreteGaussian
from trimask_core.randomness import SystemRandom
from trimask_core.rows.normal import NormalStream
from trimask_core.sealing import SealingKey
from trimask_server.protocol.blinding import blind

__all__ = ["blinding", "gaussian", "normals"]

_SIGMA_STEPS = 1 << 25  # about what sigma is in grid steps for a study of 20 attributes


def blinding(settings: Settings) -> Iterator[Result]:
    """Pairwise masks of one delivery among three components, against AES-CTR of as many bytes."""
    n, p = (256, 1044) if settings.quick else (1024, 4104)
    values = np.random.default_rng(0).integers(-(1 << 50), 1 << 50, (n, p), dtype=np.int64)
    keys = {k: SealingKey.generate() for k in (1, 2, 3)}
    publics = {k: key.public for k, key in keys.items()}
    streams = len(keys) - 1
    zeros, out = bytes(values.nbytes), bytearray(values.nbytes + 15)

    def encrypt() -> None:
        for _ in range(streams):
            Cipher(algorithms.AES256(os.urandom(32)), modes.CTR(bytes(16))).encryptor().update_into(
                zeros, out
            )

    seconds, limit = race(lambda: blind(values, 1, keys[1], publics, b"try"), encrypt, settings.repeats(5))
    yield share_of_limit(
        "blinding",
        f"{n:,} × {p:,}, {streams} pairwise masks",
        seconds,
        limit,
        "AES-256-CTR of the same bytes into a buffer",
        bytes_per_second=streams * values.nbytes / seconds,
        aes_bytes_per_second=streams * values.nbytes / limit,
    )


def gaussian(settings: Settings) -> Iterator[Result]:
    """Canonne, Kamath and Steinke's sampler in Python, against OpenDP's in Rust, both exact."""
    count = 500 if settings.quick else 4000
    sampler = DiscreteGaussian(_SIGMA_STEPS, SystemRandom())
    try:
        import opendp.prelude as dp
    except ImportError:  # a development dependency: without it there is a rate and no ratio worth the name
        seconds = best_seconds(lambda: sampler.samples(count), settings.repeats(5))
        limit, against = seconds, "itself: opendp is not installed"
    else:
        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
        mechanism = dp.m.make_gaussian(*space, scale=float(_SIGMA_STEPS))
        zeros = [0] * count
        seconds, limit = race(lambda: sampler.samples(count), lambda: mechanism(zeros), settings.repeats(5))
        against = "OpenDP's exact discrete Gaussian on a vector (Rust)"
    yield share_of_limit(
        "discrete Gaussian",
        f"{count:,} samples",
        seconds,
        limit,
        against,
        samples_per_second=count / seconds,
        limit_samples_per_second=count / limit,
    )


def normals(settings: Settings) -> Iterator[Result]:
    """Normals from a 32-byte seed, the same bits on every machine, against numpy's PCG64."""
    count = 1 << (16 if settings.quick else 20)
    seed, fast = os.urandom(32), np.random.default_rng(0)
    seconds, limit = race(
        lambda: NormalStream(seed, b"bench").standard_normal(count),
        lambda: fast.standard_normal(count),
        settings.repeats(7, 3),
    )
    yield share_of_limit(
        "deterministic normals",
        f"{count:,} normals",
        seconds,
        limit,
        "numpy's PCG64 (neither secret nor portable to the bit)",
        normals_per_second=count / seconds,
        limit_normals_per_second=count / limit,
    )

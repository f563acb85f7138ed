"""A block from end to end, against the arithmetic it cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

from bench.cluster import Live, live_cluster
from bench.measure import dgemm_rate
from bench.results import Result, Settings

__all__ = ["block", "block_flops", "timed_block"]


def block_flops(n: int, p: int, right: int, left: int) -> dict[str, float]:
    """Floating-point operations of a block of n rows and p columns by who does them, all matrix products or QR.

    A product of n reflections costs 2 n^2 on a vector of length n, twice that of the columns it reaches.
    """
    qr = 4.0 * n * n * p - 4.0 * n**3 / 3  # X^T = Q R, with Q formed
    turn_basis = 2.0 * n * n * p + 2.0 * n**3  # O on Q and on R
    frame = 4.0 * n * n * p - 2.0 * n**3  # F put on, or taken off
    return {
        "right masking": right * (qr + turn_basis + frame),
        "left masking": left * 2.0 * n * n * (right * p),
        "unmasking": right * (frame + 2.0 * n * n * p),
    }


def timed_block(live: Live, n: int, people: int) -> tuple[float, int]:
    """Seconds from close to publication with the rows of `people` in the providers' stores; and p."""
    signed = live.open(n, people)
    live.upload(signed.study, live.prepare(signed, people))
    return live.close_and_wait(signed.study), signed.study.rows.columns


def block(settings: Settings) -> Iterator[Result]:
    """Plan, right masks, two left masks, unmasking, blinding, pooling, erasure, publication: seven processes, one block."""
    with live_cluster() as live:
        timed_block(live, 128, 128)  # the first study pays for connections and first use
        for n in (128,) if settings.quick else (128, 256, 512):
            seconds, columns = zip(
                *(timed_block(live, n, n) for _ in range(settings.repeats(3, 1))), strict=True
            )
            flops = block_flops(n, columns[0], right=live.right, left=live.left)
            limit = sum(flops.values()) / dgemm_rate()
            yield Result(
                "block", f"one block of {n}, p = {columns[0]:,}", "speed", 1e3 * min(seconds), 1e3 * limit, "ms",
                "its matrix flops at the dgemm rate of one core", limit / min(seconds),
                detail={"gflop": {name: value / 1e9 for name, value in flops.items()}, "repeats": len(seconds)},
            )  # fmt: skip

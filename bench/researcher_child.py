"""A researcher's process for `bench.researcher`: reads what to do as JSON, does it, writes what it cost."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.linalg import blas

import trimask
from bench.measure import best_seconds, race
from bench.published import FORMULA, SLOPES
from trimask.data.dataset import Dataset
from trimask.data.manifest import file_sha256
from trimask_theory.moments.noise_law import Matrix

__all__ = ["main"]

_BLOCK = 65_536


def peak_mb() -> float:
    """The most memory this process held; of this program alone, unlike getrusage, which keeps what came before exec."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1000
    raise RuntimeError("this system does not tell a process's peak memory")


def _pull(order: dict[str, Any], *, cut: bool = False) -> tuple[Dataset, dict[str, Any]]:
    first: list[int] = []

    def progress(_: str, here: int, whole: int) -> None:
        first.append(here)
        if cut and here >= whole // 2:
            os.kill(os.getpid(), signal.SIGKILL)

    start = time.perf_counter()
    with trimask.connect(
        order["address"], roots=order["roots"].encode(), tls_name=order["tls_name"], cache=order["cache"]
    ) as collector:
        dataset = collector.dataset(order["dataset_id"], progress=progress)
    seconds = time.perf_counter() - start
    return dataset, {"seconds": seconds, "fetched": order["file_bytes"] - first[0]}


def _cached(order: dict[str, Any]) -> Path:
    (folder,) = Path(order["cache"]).glob("datasets/*")
    return folder


def _fit(dataset: Dataset) -> dict[str, Any]:
    """The fit, and by how many standard errors its worst coefficient misses: a fast wrong answer is no answer."""
    fitted = trimask.fit.ols(dataset, FORMULA)
    half = {column.name: column.half_range for column in dataset.columns}
    true = [slope * half["a0"] / half[f"a{i}"] for i, slope in enumerate(SLOPES, 1)]
    worst = float(np.max(np.abs((fitted.params.to_numpy()[1:] - true) / fitted.bse.to_numpy()[1:])))
    if worst > 6:
        raise RuntimeError(f"a coefficient is {worst:.1f} standard errors from the truth")
    return {"worst_z": worst}


def _scan(path: Path) -> Matrix:
    """The least a fit can do: every block of the file into a matrix, and its product with itself."""
    with pq.ParquetFile(path) as file:
        columns = len(file.schema_arrow.names)
        gram = np.zeros((columns, columns), order="F")
        for batch in file.iter_batches(batch_size=_BLOCK):
            block = np.empty((batch.num_rows, columns), order="F")
            for j in range(columns):
                block[:, j] = batch.column(j).to_numpy()
            gram = blas.dgemm(1.0, block, block, 1.0, gram, trans_a=True, overwrite_c=True)
    return gram


def _copy(source: Path, target: Path) -> None:
    digest = hashlib.sha256()
    with source.open("rb") as read, target.open("wb") as write:
        while piece := read.read(2 << 20):
            write.write(piece)
            digest.update(piece)
    target.unlink()


def _race(folder: Path, repeats: int) -> dict[str, Any]:
    """By turns: fit and bare scan; the same with the checks of opening and one hash. Processor time of all threads."""
    dataset, clock = Dataset.open(folder), time.process_time
    path = dataset.path
    fit, scan = race(
        lambda: trimask.fit.ols(Dataset(dataset.manifest, folder), FORMULA),
        lambda: _scan(path),
        repeats,
        clock,
    )
    open_fit, scan_hash = race(
        lambda: trimask.fit.ols(Dataset.open(folder), FORMULA),
        lambda: (_scan(path), file_sha256(path)),
        repeats,
        clock,
    )
    copy = best_seconds(lambda: _copy(path, folder / "copy"), repeats, time.perf_counter)
    return {"fit": fit, "scan": scan, "open_fit": open_fit, "scan_hash": scan_hash, "copy": copy}


def main() -> int:
    """Do what standard input asks for."""
    order: dict[str, Any] = json.load(sys.stdin)
    if order["action"] in ("pull", "cut"):
        _, found = _pull(order, cut=order["action"] == "cut")
    elif order["action"] == "fit":
        found = _fit(Dataset.open(_cached(order)))
    else:
        found = _race(_cached(order), order["repeats"])
    print(json.dumps({**found, "peak_mb": peak_mb()}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

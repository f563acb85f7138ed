"""Real nodes to measure, as many as a draft has: each a process of its own with its helpers, TLS and SQLite and all."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bench.device import request_bytes
from bench.echo import ECHO_METHOD
from bench.example import answers, definition, sign
from bench.load import Target, drive
from trimask_cli.owner import close_study, open_study
from trimask_client import Endpoint, SealedSubmission
from trimask_client.gateway import gateway_of
from trimask_client.grpc_channel import open_channel
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import TrimaskError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.study.definition import Study
from trimask_core.study.party import admission_key
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1.dataset_pb2 import ListDatasetsRequest
from trimask_proto.v1.dataset_pb2_grpc import DatasetServiceStub
from trimask_server.local.cluster import ProcessCluster, free_base_port, node_of
from trimask_server.local.keys import make_keys, node_places
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

__all__ = ["SUBMIT", "Live", "Usage", "live_cluster", "tree_usage"]

SUBMIT = "/trimask_proto.v1.SubmissionService/Submit"
_PARTIES = {"rows": (4, 2), "moments": (2, 0)}  # right and left providers
_POLL_SECONDS = 0.05
_PUBLISH_SECONDS = 300.0


class Live:
    """The running nodes, and what the benchmarks do with them."""

    def __init__(self, folder: Path, suite: str = "rows", *, https: bool = False, store: str = "") -> None:
        self.folder = folder
        self.workers: dict[str, str] = {}
        self.suite = suite
        self.right, self.left = _PARTIES[suite]
        count = 1 + self.right + self.left
        self._base = free_base_port(3 * count + 1)
        places = node_places(self.right, self.left, "127.0.0.1", self._base, https=https)
        self._parties = make_keys(folder, places)
        if store:  # every node in a schema of its own
            for config in folder.glob("*/node.toml"):
                config.write_text(f'{config.read_text()}\n[store]\nurl = "{store}"\n')
        self.echo_port = self._base + 3 * count

    @cached_property
    def roots(self) -> str:
        """The development authority."""
        return (self.folder / "authority" / "ca.pem").read_text(encoding="ascii")

    def open(self, block_rows: int, release_rows: int) -> SignedStudy:
        """A new study, approved by all and open for submissions."""
        parties = self._parties
        study = create_study(
            load_definition(definition(block_rows, release_rows, suite=self.suite)),
            parties["collector"],
            [parties[f"R{k}"] for k in range(1, self.right + 1)],
            [parties[f"L{j}"] for j in range(1, self.left + 1)],
            self.roots,
            SystemClock().now_ms(),
            SystemRandom(),
            admission_key(self.folder / "owner").public,
        )
        signed = sign(SignedStudy(study), self.folder)
        open_study(signed, self.folder / "owner")
        return signed

    @cached_property
    def markers(self) -> dict[str, str]:
        """What stands on each node's command line."""
        names = [
            "collector",
            *(f"R{k + 1}" for k in range(self.right)),
            *(f"L{j + 1}" for j in range(self.left)),
        ]
        return {name: str(self.folder / name / "node.toml") for name in names}

    @property
    def worker_markers(self) -> dict[str, str]:
        """The same for each worker of each node, by its name."""
        return {
            name: f"{self.markers[node_of(name)]}\0--worker-listen\0{address}"
            if address
            else self.markers[name]
            for name, address in self.workers.items()
        }

    def target(self, study: Study, role: str) -> Target:
        """Where components for `role` go."""
        party = study.party(role)
        return Target(Endpoint(party.address, party.tls_name, study.tls_roots), SUBMIT)

    def echo_target(self) -> Target:
        """The bare server beside them, under the certificate of the last right provider."""
        party = self._parties[f"R{self.right}"]
        return Target(Endpoint(f"127.0.0.1:{self.echo_port}", party.tls_name, self.roots), ECHO_METHOD)

    def prepare(self, signed: SignedStudy, people: int) -> list[SealedSubmission]:
        """Submissions of that many people, not sent yet."""
        rng = np.random.default_rng(people)
        everybody = [answers(rng) for _ in range(people)]
        return gateway_of(signed.verify()).submissions(everybody, SystemRandom())

    def upload(self, study: Study, submissions: list[SealedSubmission]) -> None:
        """Every component to its right provider, a call each: these stand for phones."""
        columns = list(zip(*(request_bytes(submission) for submission in submissions), strict=True))
        for k, requests in enumerate(columns, 1):
            drive(self.target(study, f"R{k}"), requests, under_way=32)

    def close_and_wait(self, study: Study, poll_seconds: float = _POLL_SECONDS) -> float:
        """Seconds from closing a study until its dataset is listed. Where processor time is measured, ask seldom: each
        question is answered by the collector."""
        party = study.collector
        with open_channel(party.address, self.roots, party.tls_name) as channel:
            stub = DatasetServiceStub(channel)
            request = ListDatasetsRequest(study_id=study.id)
            stub.ListDatasets(request, timeout=10)  # the connection is there before the clock starts
            start = time.perf_counter()
            close_study(study, self.folder / "owner")
            while not stub.ListDatasets(request, timeout=10).datasets:
                if time.perf_counter() - start > _PUBLISH_SECONDS:
                    raise TrimaskError(f"nothing was published in {_PUBLISH_SECONDS:g} s")
                time.sleep(poll_seconds)
            return time.perf_counter() - start


@contextmanager
def live_cluster(
    suite: str = "rows", *, https: bool = False, store: str = "", workers: int = 1
) -> Iterator[Live]:
    """Nodes, started and stopped, in a temporary folder; several workers each need a PostgreSQL database as `store`."""
    with tempfile.TemporaryDirectory(prefix="trimask-bench-") as name:
        live = Live(Path(name), suite, https=https, store=store)
        with ProcessCluster(live.folder, workers) as cluster:
            live.workers = cluster.workers
            yield live


@contextmanager
def echo_server(live: Live, answer_bytes: int) -> Iterator[subprocess.Popen[bytes]]:
    """The bare server, for as long as it is compared with."""
    keys = live.folder / f"R{live.right}"
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.echo", str(keys), str(live.echo_port), str(answer_bytes)]
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


@dataclass(frozen=True)
class Usage:
    """Processor seconds so far, of ended children too, and resident megabytes."""

    seconds: float
    megabytes: float


def tree_usage(marker: str, *, shared_out: bool = False) -> Usage:
    """Of the process with `marker` on its command line and all that it started; not a number without /proc.

    Memory is what is resident in each, or, `shared_out`, with each page divided by how many processes have it.
    """
    parents: dict[int, int] = {}
    found: dict[int, Usage] = {}
    roots = set()
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE") / 2**20
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # Fields are counted after the name in brackets, which may hold anything.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            marked = marker.encode() in (entry / "cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        process = int(entry.name)
        parents[process] = int(fields[1])
        found[process] = Usage(sum(map(int, fields[11:15])) / ticks, int(fields[21]) * page)
        if marked:
            roots.add(process)
    tree = set(roots)
    while grown := {process for process, parent in parents.items() if parent in tree} - tree:
        tree |= grown
    if not tree:
        return Usage(math.nan, math.nan)
    megabytes = [_shared_out(one) if shared_out else found[one].megabytes for one in tree]
    return Usage(sum(found[one].seconds for one in tree), sum(megabytes))


def _shared_out(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:  # it ended meanwhile
        return 0.0
    return int(text.partition("\nPss:")[2].split()[0]) / 1024

"""All nodes of a study on one machine: as processes (the demo, fault tests) or in one thread (quick tests).

Both run the same node code on the folder that `trimask keys` writes: one sub-folder a node, each with its node.toml.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from trimask_core.basics.errors import ConfigError, TrimaskError
from trimask_server.programs.roles import Node, start_node
from trimask_server.settings.config import NodeRole, load_config

_LOWEST_PORT, _LENT_PORTS = 10_240, 32_768  # Linux uses the ports from 32768 on for outgoing connections


def free_base_port(count: int) -> int:
    """The first of `count` neighbouring free ports on loopback, below the range the system uses for outgoing connections.

    A port from that range could be taken by a connection while its node is being restarted.
    """
    for _ in range(100):
        base = _LOWEST_PORT + secrets.randbelow(_LENT_PORTS - _LOWEST_PORT - count)
        if all(_is_free(port) for port in range(base, base + count)):
            return base
    raise ConfigError(f"no {count} neighbouring free ports were found on this machine")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def role_of(name: str) -> NodeRole:
    """The program that runs a node of this name."""
    return "collector" if node_of(name) == "collector" else "right" if name.startswith("R") else "left"


def node_of(worker: str) -> str:
    """The node a worker is one of."""
    return worker.partition("#")[0]


def worker_addresses(nodes: Iterable[str], workers: int) -> dict[str, str]:
    """The workers of every node by name, each with its own peer address; empty where a node has only one."""
    if workers == 1:
        return dict.fromkeys(nodes, "")
    names = [
        name if number == 1 else f"{name}#{number}" for name in nodes for number in range(1, workers + 1)
    ]
    base = free_base_port(len(names))
    return {name: f"127.0.0.1:{base + index}" for index, name in enumerate(names)}


def node_folders(folder: Path) -> dict[str, Path]:
    """The nodes that have a configuration below `folder`, by name."""
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/node.toml"))}
    if not found:
        raise ConfigError(f"{folder} has no */node.toml; make one with `trimask keys {folder}`")
    return found


class ProcessCluster:
    """Each node a process of its own, or several workers on one PostgreSQL; logs in node.log beside the configuration.

    A worker is named after its node, from the second on with its number: R1, R1#2.
    """

    def __init__(self, folder: Path, workers: int = 1) -> None:
        self.folder = folder
        self.nodes = node_folders(folder)
        self.workers = worker_addresses(self.nodes, workers)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> ProcessCluster:
        try:
            for name in self.workers:
                self.start(name)
            for name in self.workers:
                self.wait_ready(name)
        except BaseException:
            self.kill_all()  # the caller has no cluster to stop
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.stop()
        else:  # an error, or Ctrl-C: nobody waits for what they would still do
            self.kill_all()

    def start(self, name: str) -> None:
        """Start one node or worker; `wait_ready` says when it serves."""
        folder = self.nodes[node_of(name)]
        # A node's own BLAS threads are its configuration's business, not the environment's.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        own = ["--worker-listen", self.workers[name]] if self.workers[name] else []
        with (folder / "node.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "trimask_terminal",
                    role_of(name),
                    "--config",
                    str(folder / "node.toml"),
                    *own,
                ],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=environment,
                process_group=0,  # a terminal's Ctrl-C is for us; we end them
            )

    def wait_ready(self, name: str, timeout_seconds: float = 300.0) -> None:
        """Wait until the node's health service answers SERVING; one that ends is noticed at once, a busy machine is slow."""
        node = node_of(name)
        config = load_config(self.nodes[node] / "node.toml", role_of(name))
        deadline = time.monotonic() + timeout_seconds
        address = self.workers[name] or config.peer_listen
        with _owner_channel(self.folder / "owner", address, node) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while True:
                try:
                    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=1.0)
                    if answer.status == health_pb2.HealthCheckResponse.SERVING:
                        return
                except grpc.RpcError:
                    pass
                if self._processes[name].poll() is not None or time.monotonic() > deadline:
                    tail = (self.nodes[node] / "node.log").read_text(errors="replace")[-2000:]
                    raise TrimaskError(f"{name} did not start; the end of its log:\n{tail}")
                time.sleep(0.05)

    def cpu_seconds(self) -> float | None:
        """CPU that the nodes have used so far, their helper processes too; None where the system does not tell (/proc)."""
        if not Path("/proc/self/stat").is_file():
            return None
        parents, used = {}, {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                # After the name in brackets: state, parent, ...; utime and stime are fields 14 and 15.
                fields = path.read_text().rpartition(")")[2].split()
                parents[int(path.parent.name)] = int(fields[1])
                used[int(path.parent.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        nodes = {process.pid for process in self._processes.values()}
        return sum(seconds for pid, seconds in used.items() if pid in nodes or parents[pid] in nodes)

    def kill(self, name: str) -> None:
        """kill -9."""
        process = self._processes[name]
        process.kill()
        process.wait()

    def restart(self, name: str) -> None:
        """Kill and start again."""
        self.kill(name)
        self.start(name)

    def stop(self) -> None:
        """Ask every node to stop, and see that it does."""
        try:
            for process in self._processes.values():
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            for process in self._processes.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(15)
        finally:
            self.kill_all()  # those that did not, and all of them if this was interrupted

    def kill_all(self) -> None:
        """kill -9, every node that still runs."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()


def _owner_channel(owner: Path, address: str, name: str) -> grpc.Channel:
    credentials = grpc.ssl_channel_credentials(
        (owner / "ca.pem").read_bytes(), (owner / "tls.key").read_bytes(), (owner / "tls.pem").read_bytes()
    )
    options = [
        ("grpc.ssl_target_name_override", f"{name.lower()}.trimask.local"),
        ("grpc.initial_reconnect_backoff_ms", 50),
        ("grpc.max_reconnect_backoff_ms", 100),
    ]
    return grpc.secure_channel(address, credentials, options)


class ThreadCluster:
    """Every node on one event loop in one background thread: the same servers, sockets and TLS, quicker to start."""

    def __init__(self, folder: Path, workers: int = 1) -> None:
        self.folder = folder
        self.workers = worker_addresses(node_folders(folder), workers)
        self.nodes: dict[str, Node] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True)

    def __enter__(self) -> ThreadCluster:
        self._thread.start()
        for name in self.workers:
            self.start(name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.nodes):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def start(self, name: str) -> None:
        """Start one node or worker."""
        config = load_config(self.folder / node_of(name) / "node.toml", role_of(name))
        config = replace(config, worker_listen=self.workers[name])
        starting = asyncio.run_coroutine_threadsafe(start_node(role_of(name), config), self._loop)
        self.nodes[name] = starting.result(300)

    def stop(self, name: str) -> None:
        """Stop one node as SIGTERM would."""
        node = self.nodes.pop(name)
        asyncio.run_coroutine_threadsafe(node.host.stop(0.2), self._loop).result(300)

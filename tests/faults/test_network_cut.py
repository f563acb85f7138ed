"""Nodes in network namespaces of their own, joined by a bridge; a link is cut in the middle of a block and restored.

Needs the right to make namespaces (root), `ip`, and a kernel that has them; skipped with the reason where it is not so.
Addresses are from the block for documentation (RFC 5737) and exist inside the test's namespaces only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from trimask_faults.lab import FaultLab
from trimask_patience import patience
from trimask_server.local.cluster import role_of
from trimask_server.local.keys import NodePlace
from trimask_simulation.people import PEOPLE

NAMES = ["collector", "R1", "R2", "R3", "L1", "L2"]
_NET = "192.0.2."  # TEST-NET-1


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Links:
    """A bridge in a namespace of its own, and a namespace with one link to it for each party and for the devices."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._made: list[str] = []
        self.hub = f"{label}-hub"

    def make(self) -> None:
        self._namespace(self.hub)
        _ip("-n", self.hub, "link", "add", "bridge0", "type", "bridge")
        _ip("-n", self.hub, "link", "set", "bridge0", "up")
        for number, name in enumerate([*NAMES, "devices"], 1):
            inside = self.namespace(name)
            self._namespace(inside)
            _ip(
                "-n",
                self.hub,
                "link",
                "add",
                f"v{number}",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                inside,
            )
            _ip("-n", self.hub, "link", "set", f"v{number}", "master", "bridge0", "up")
            _ip("-n", inside, "addr", "add", f"{_NET}{number}/24", "dev", "eth0")
            _ip("-n", inside, "link", "set", "eth0", "up")
            _ip("-n", inside, "link", "set", "lo", "up")

    def _namespace(self, name: str) -> None:
        _ip("netns", "add", name)
        self._made.append(name)

    def namespace(self, name: str) -> str:
        return f"{self._label}-{name}"

    def address(self, name: str) -> str:
        return f"{_NET}{NAMES.index(name) + 1}"

    def cut(self, name: str) -> None:
        _ip("-n", self.hub, "link", "set", f"v{NAMES.index(name) + 1}", "down")

    def restore(self, name: str) -> None:
        _ip("-n", self.hub, "link", "set", f"v{NAMES.index(name) + 1}", "up")

    def remove(self) -> None:
        for name in reversed(self._made):
            with contextlib.suppress(OSError):
                _ip("netns", "delete", name)


@pytest.fixture(scope="module")
def links() -> Iterator[Links]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` program here (iproute2)")
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = Links(f"tm{os.getpid()}")
    try:
        made.make()
    except OSError as error:
        made.remove()
        pytest.skip(f"this machine does not allow network namespaces: {error}")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def lab(links: Links, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultLab]:
    places = [
        NodePlace(
            name,
            "" if name.startswith("L") else f"{links.address(name)}:7001",
            f"{links.address(name)}:7002",
        )
        for name in NAMES
    ]
    made = FaultLab(tmp_path_factory.mktemp("namespaces"), places)
    processes = []
    for name in NAMES:
        folder = made.folder / name
        with (folder / "node.log").open("ab") as log:
            processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", links.namespace(name), sys.executable, "-m", "trimask_terminal", role_of(name),
                     "--config", str(folder / "node.toml")],
                    stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                )
            )  # fmt: skip
    yield made
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait(patience(30))


class Devices:
    """The owner's and the devices' program in its namespace; it says how far it is, a line at a time."""

    def __init__(self, links: Links, lab: FaultLab) -> None:
        path = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", links.namespace("devices"), sys.executable,
             "-m", "trimask_faults.in_namespace", str(lab.folder)],
            stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip

    def wait_for(self, word: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"it ended before it said {word!r}")

    def end(self) -> int:
        with self._process:  # closes the pipe and waits
            return self._process.wait(patience(60))


def _answers(links: Links, name: str) -> bool:
    """Whether a connection to a node can be made from where the devices are."""
    program = f"import socket; socket.create_connection(({links.address(name)!r}, 7002), 1)"
    command = ["ip", "netns", "exec", links.namespace("devices"), sys.executable, "-S", "-c", program]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["L1", "R2", "collector"])
def test_link_cut_while_blocks_are_masked(links: Links, lab: FaultLab, name: str) -> None:
    devices = Devices(links, lab)
    devices.wait_for("masking")  # enough rows are in for blocks to be under way
    links.cut(name)
    try:
        assert not _answers(links, name)
        threading.Event().wait(4.0)  # the fault itself: so long the node is alone
    finally:
        links.restore(name)
    counts = json.loads(devices.wait_for("checked"))
    assert devices.end() == 0
    assert _answers(links, name)
    assert counts["rows"] == PEOPLE

"""A node's lock on its folder and its ports, taken before anything is opened or written.

Two processes on one SQLite file would each believe themselves alone, and a node of one role that starts in the folder of
another begins a second store and a second log there. Several workers of a node on one PostgreSQL share the claim; each
has a `worker_listen` of its own.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from trimask_core.basics.errors import ConfigError
from trimask_core.study.party import role_of_name
from trimask_server.runtime.ports import holder_words, taken
from trimask_server.settings.config import NodeConfig, NodeRole
from trimask_server.store.database import sqlite_path

LOCK_FILE = "node.lock"
_PATIENCE_SECONDS = 1.0  # time for an earlier process that is just ending
_WORDS = {"collector": "the collector", "right": "a right provider", "left": "a left provider"}


@dataclass
class Claim:
    """The lock on a data folder, held while the process lives; a killed process lets go of it."""

    descriptor: int

    def release(self) -> None:
        """Release the lock, after everything in the folder is closed."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def claim_node(role: NodeRole, config: NodeConfig) -> Claim:
    """Check everything that must hold before a start, refuse with what to do, and claim the folder for this process."""
    refuse_folder(config)
    refuse_role(role, config)
    shared = bool(config.own_address and config.store.url)
    claim = _lock(config, shared=shared)
    try:
        _refuse_ports(config, shared=shared)
    except BaseException:
        claim.release()
        raise
    return claim


def running(config: NodeConfig) -> int | None:
    """The process that has a node's folder, or None; nothing is written. Of several workers, the first."""
    try:
        descriptor = os.open(Path(config.data) / LOCK_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return next(iter(_alive(os.pread(descriptor, 4096, 0))), 0)
    finally:
        os.close(descriptor)
    return None


def refuse_folder(config: NodeConfig) -> None:
    """Refuse a data folder that this user cannot use, and to make files in it that its owner could not use."""
    folder = Path(config.data)
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if os.statvfs(there).f_flag & os.ST_RDONLY:  # then owner and modes are not what is wrong
        raise ConfigError(
            f"{folder} (`data` in node.toml) is on a read-only file system: mount it read-write (dmesg says whether the "
            "kernel made it read-only after an error), or name a folder elsewhere"
        )
    if not folder.is_dir():
        return
    owner = folder.stat().st_uid
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(
            f"{folder} (`data` in node.toml) cannot be written by uid {os.getuid()}: chown it to the user that runs the "
            f"node, or run the node as uid {owner}"
        )
    if os.geteuid() == 0 and owner != 0:
        raise ConfigError(
            f"{folder} (`data` in node.toml) belongs to uid {owner}, who could not use what root writes there: run the "
            "node as that user, with runuser, `sudo -u` or its service"
        )


def refuse_role(role: NodeRole, config: NodeConfig) -> None:
    """Refuse to run a node as something else than it is, by its name and by the store in its folder."""
    try:
        named = role_of_name(config.name)
    except ConfigError:
        named = role
    if named != role:
        raise ConfigError(
            f"{config.name} is {_WORDS[named]}: start it with `trimask {named}`, or give the node.toml of {_WORDS[role]}"
        )
    for other in get_args(NodeRole):
        path = sqlite_path(config, other)
        if other != role and path.exists():
            raise ConfigError(
                f"{path} is the store of {_WORDS[other]}, so {config.data} is not the folder of {_WORDS[role]}: "
                f"`data` in node.toml must be a folder of this node's own"
            )


def _lock(config: NodeConfig, *, shared: bool) -> Claim:
    folder = Path(config.data)
    path = folder / LOCK_FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(
            f"cannot write {error.filename}: {error.strerror}; `data` in node.toml and what is in it must belong to the "
            f"user that runs the node (uid {os.getuid()})"
        ) from None
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            holders = _alive(os.pread(descriptor, 4096, 0))
            os.close(descriptor)
            raise ConfigError(_in_use(config, holders, shared=shared)) from None
    mine = f"{os.getpid()}\n".encode()
    known = os.pread(descriptor, 4096, 0) if shared else b""
    kept = b"".join(b"%d\n" % pid for pid in _alive(known))
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, kept + mine, 0)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(f"cannot write {path}: {error.strerror}; make room on its disk") from None
    return Claim(descriptor)


def _alive(text: bytes) -> list[int]:
    """The processes a lock file names that run."""
    return [int(word) for word in text.split() if word.isdigit() and Path(f"/proc/{int(word)}").exists()]


def _in_use(config: NodeConfig, holders: list[int], *, shared: bool) -> str:
    who = f"process {' and '.join(map(str, holders))}" if holders else "another process"
    said = f"{config.name} runs already: {who} uses {config.data}. Stop it first"
    if shared:
        return f"{said}, or start it as a worker too (`--worker-listen`)"
    if config.store.url:
        return f"{said}, or give each worker of the node a `--worker-listen` of its own"
    return said


def _refuse_ports(config: NodeConfig, *, shared: bool) -> None:
    """Refuse ports that are taken. Workers of one node share theirs, except `worker_listen`."""
    wanted = {"worker_listen": config.worker_listen}
    if not shared:
        wanted |= {
            "listen": config.listen, "peer_listen": config.peer_listen, "http_listen": config.http_listen,
            "https_listen": config.https_listen,
        }  # fmt: skip
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for setting, address in wanted.items():
        why = taken(setting, address) if address else ""
        while why and time.monotonic() < deadline:
            time.sleep(0.05)
            why = taken(setting, address)
        if why:
            raise ConfigError(f"cannot listen on {setting} = {address!r}: {why}{holder_words(address)}")

"""Whether an address can be listened on, and which process has it if not."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

from trimask_core.errors import ConfigError

__all__ = ["holder_of", "holder_words", "split_address", "taken"]

_UNPRIVILEGED = 1024
_LISTEN = "0A"  # TCP_LISTEN in /proc/net/tcp


def taken(setting: str, address: str) -> str:
    """Why nothing can listen on an address, or nothing; `ConfigError` if it is not one. Port 0 is always free.

    gRPC would share a port with any other program that allows it (SO_REUSEPORT), and half of the calls would go there.
    """
    host, port = split_address(setting, address)
    if port == 0:
        return ""
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        return f"{host} is not an address of this machine: {getattr(error, 'strerror', 'no host name')}"
    for family, kind, protocol, _, place in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(
                socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
            )  # as gRPC does: what lingers does not count
            try:
                probe.bind(place)
            except OSError as error:
                return _why(error, host, port)
    return ""


def split_address(setting: str, address: str) -> tuple[str, int]:
    """Host and port of an address to listen on; `ConfigError` if it is not one."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{setting} = {address!r} must be host:port, such as 0.0.0.0:7400")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ConfigError(
            f"{setting} = {address!r}: an IPv6 address is written in brackets, as [{host.strip('[]')}]:{port}"
        )
    return host, int(port)


def _why(error: OSError, host: str, port: int) -> str:
    said = os.strerror(error.errno or 0)
    if error.errno == errno.EACCES and port < _UNPRIVILEGED:
        return (
            f"{said}: a port below {_UNPRIVILEGED} takes CAP_NET_BIND_SERVICE, which deploy/trimask@.service says how to "
            f"give; or choose a port from {_UNPRIVILEGED} on"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine"
    return said


def holder_of(port: int) -> int | None:
    """The process that listens on a port of this machine, as far as the system lets us see it."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                parts = line.split()
                if parts[3] == _LISTEN and int(parts[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{parts[9]}]")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or gone by now
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(descriptor.readlink()) in inodes:
                        return int(process.name)
    return None


def holder_words(address: str) -> str:
    """` by process 4711`, where that can be seen."""
    holder = holder_of(int(address.rpartition(":")[2]))
    return "" if holder is None else f" by process {holder}"

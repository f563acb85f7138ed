"""One gRPC port of a node: its services behind the gate, the limits and the guard, with health and reflection.

Where an address cannot be listened on, it is said which process has it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trimask_core.basics.errors import ConfigError
from trimask_server.runtime.context import NodeContext
from trimask_server.runtime.inbound_limits import Arrivals, Limits, arrivals_of, server_options
from trimask_server.runtime.interceptors import Admission, GuardedServer, Observation
from trimask_server.runtime.metrics import Health

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


def serve(servicer: object, server: grpc.aio.Server) -> str:
    """Add a service to a server; its full name. Which it is the base says that was generated for it."""
    base = next(kind for kind in type(servicer).__mro__ if kind.__module__.endswith("_pb2_grpc"))
    getattr(sys.modules[base.__module__], f"add_{base.__name__}_to_server")(servicer, server)
    return f"trimask_proto.v1.{base.__name__.removesuffix('Servicer')}"


@dataclass(frozen=True)
class Bound:
    """A bound port: its server (not started yet), its number, and its handlers, which the HTTPS port calls too."""

    server: grpc.aio.Server
    number: int
    guarded: GuardedServer
    arrivals: Arrivals


@dataclass(frozen=True)
class Port:
    """What is served on a port, and who may call it. The peer port is `mutual`: callers show a certificate."""

    services: list[object]
    gate: Admission
    mutual: bool

    async def bind(self, context: NodeContext, state: Health, addresses: Sequence[str]) -> Bound:
        """Bind the addresses that are not empty."""
        public = not self.mutual
        server = grpc.aio.server(options=server_options(context.config, public=public))
        arrivals = arrivals_of(context.config, context.refusals, context.clock, public=public)
        guarded = GuardedServer(
            server,
            context.refusals,
            context.log,
            context.studies.refresh,
            self.gate,
            inside=Limits(context.config, public=public).wrap,
            outside=Observation(
                context.config.name, context.metrics, context.tracer, context.source, public=public
            ).wrap,
            arriving=arrivals.wrap,
            streaming=arrivals.wrap_stream,
        )
        # It has the two methods that generated code calls.
        names = [serve(servicer, cast("grpc.aio.Server", guarded)) for servicer in self.services]
        everything = (*names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self.gate.require_complete(everything)
        healthy = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
        await state.add(healthy, ("", *names))
        reflection.enable_server_reflection(everything, server)
        guarded.refuse_the_rest()
        # Credentials of its own for each address: gRPC tells each of a new certificate once.
        numbers = [
            _listen(server, address, context.certificates.server_credentials(mutual=self.mutual))
            for address in addresses
            if address
        ]
        return Bound(server, numbers[0], guarded, arrivals)


def _listen(server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials) -> int:
    try:
        return server.add_secure_port(address, credentials)
    except RuntimeError as error:
        reason = str(error).partition(";")[0]  # what follows is about gRPC's own logging
        raise ConfigError(f"cannot listen on {address}: {reason}{holder_words(address)}") from None

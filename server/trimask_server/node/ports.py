"""One gRPC port of a node: its services behind the gate, the limits and the guard, with health and reflection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import grpc
from grpc_health.v1 import health, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trimask_core.errors import ConfigError
from trimask_server.node.context import NodeContext
from trimask_server.operations.arrivals import Arrivals
from trimask_server.operations.guard import Admission, GuardedServer
from trimask_server.operations.limits import Limits, arrivals_of, server_options
from trimask_server.operations.listeners import holder_words
from trimask_server.operations.readiness import Health
from trimask_server.operations.requests import Observation

__all__ = ["AddServices", "Bound", "Port"]

AddServices = Callable[[grpc.aio.Server], str]
"""Adds a service to a server; the service's full name."""


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

    services: list[AddServices]
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
        )
        # It has the two methods that generated code calls.
        names = [add(cast("grpc.aio.Server", guarded)) for add in self.services]
        everything = (*names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        self.gate.require_complete(everything)
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        await state.add(servicer, ("", *names))
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

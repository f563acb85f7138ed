"""Calls between nodes: mutual TLS, deadlines, and who is on the other end.

A node is known to its peers by the DNS name in its certificate, which the study names as `tls_name`. That holds for
certificates of a private authority and for public ones alike, and survives their renewal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, TypeVar

import grpc

from trimask_core.errors import Refused
from trimask_core.study import Party, Study
from trimask_server.config import NodeKeys
from trimask_server.errors import MAX_MESSAGE_BYTES, REASON_KEY

__all__ = ["CHANNEL_OPTIONS", "Peers", "peer_names", "require_role"]

Stub = TypeVar("Stub")
Context = grpc.aio.ServicerContext[Any, Any]
CHANNEL_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.max_receive_message_length", 2 * MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", 2 * MAX_MESSAGE_BYTES),
    # A restarted node should be found again in a second, not in the default two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 60_000),
)


def peer_names(context: Context) -> set[str]:
    """The DNS names in the caller's certificate; empty on a connection without one."""
    names = context.auth_context().get("x509_subject_alternative_name", [])
    return {bytes(name).decode() for name in names}


def require_role(context: Context, study: Study, roles: Iterable[str]) -> None:
    """Refuse a caller that plays none of the roles in the study."""
    names = peer_names(context)
    wanted = list(roles)
    if not any(study.party(role).tls_name in names for role in wanted):
        raise Refused("not_your_role", f"only {' or '.join(wanted)} may call this")


class Peers:
    """Channels to other nodes, one each, opened when first needed."""

    def __init__(self, keys: NodeKeys) -> None:
        self._credentials = grpc.ssl_channel_credentials(keys.roots, keys.private_key, keys.certificate)
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    def channel(self, party: Party, address: str = "") -> grpc.aio.Channel:
        """The channel to a party's peer address, or to one worker of it at an address of its own."""
        key = (address or party.peer_address, party.tls_name)
        if key not in self._channels:
            options = (*CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", party.tls_name))
            self._channels[key] = grpc.aio.secure_channel(key[0], self._credentials, options)
        return self._channels[key]

    async def call(self, method: Any, request: Any, timeout_seconds: float = 20.0) -> Any:
        """A unary call that waits for the peer to come up and is repeated when the connection broke under it.

        Every call between nodes is idempotent, so a repeat is safe. A refusal comes back as `Refused`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_seconds
        while True:
            try:
                return await method(request, timeout=max(0.05, deadline - loop.time()), wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                reason = dict(error.trailing_metadata() or ()).get(REASON_KEY)
                if reason is not None:
                    raise Refused(str(reason), error.details() or str(reason)) from None
                if error.code() is grpc.StatusCode.UNAVAILABLE and loop.time() < deadline:
                    await asyncio.sleep(0.1)
                    continue
                raise Refused("unreachable", f"a peer did not answer: {error.code().name}") from None

    async def close(self) -> None:
        """Close every channel."""
        for channel in self._channels.values():
            await channel.close()

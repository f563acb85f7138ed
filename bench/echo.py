"""The least a gRPC server can do: take bytes in over TLS, give bytes back. `python -m bench.echo KEYS PORT BYTES`.

Same library, same loop, same certificate kind as a node's; nothing is parsed, checked, stored or signed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
import uvloop

__all__ = ["ECHO_METHOD", "main"]

_SERVICE = "bench.Echo"
ECHO_METHOD = f"/{_SERVICE}/Call"


async def _serve(keys: Path, port: int, answer: bytes) -> None:
    async def call(request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:  # noqa: ARG001
        return answer

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        _SERVICE, {"Call": grpc.unary_unary_rpc_method_handler(call)}
    )
    server.add_generic_rpc_handlers((handler,))
    pair = ((keys / "tls.key").read_bytes(), (keys / "tls.pem").read_bytes())
    server.add_secure_port(f"127.0.0.1:{port}", grpc.ssl_server_credentials([pair]))
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()
    await server.stop(0.1)


def main(arguments: list[str]) -> None:
    """Serve until SIGTERM."""
    keys, port, size = arguments
    uvloop.run(_serve(Path(keys), int(port), bytes(int(size))))


if __name__ == "__main__":
    main(sys.argv[1:])

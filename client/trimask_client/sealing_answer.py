"""A right provider's answer about its sealing keys, checked."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from trimask_core.errors import VerificationError
from trimask_core.identity import verify
from trimask_core.sealing import sealing_key_message
from trimask_proto.v1.submission_pb2 import GetSealingKeysResponse

__all__ = ["newest_key"]


def newest_key(answer: bytes, identity: bytes, role: str) -> bytes:
    """The newest key in it, which the provider's identity signed."""
    try:
        keys = GetSealingKeysResponse.FromString(answer).keys
    except DecodeError:
        raise VerificationError(f"{role} answered with something that is not a list of keys") from None
    if not keys or min(keys[0].activate_time_ms, keys[0].expire_time_ms) < 0:
        raise VerificationError(f"{role} has no usable sealing key")
    newest = keys[0]
    message = sealing_key_message(newest.public_key, newest.activate_time_ms, newest.expire_time_ms)
    verify(identity, "sealing-key", message, newest.signature, f"the sealing key of {role}")
    return newest.public_key

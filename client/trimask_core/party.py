"""The institutions of a study: their addresses and public keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimask_core.errors import StudyError
from trimask_core.text_form import decode_bytes, encode_bytes
from trimask_core.web import check_origin

__all__ = ["Party"]


@dataclass(frozen=True)
class Party:
    """A collector or provider: where it listens, the name its TLS certificate carries, and its keys."""

    name: str
    organisation: str
    address: str
    peer_address: str
    tls_name: str
    identity: bytes
    sealing: bytes = b""
    # Where browsers reach it, an origin such as "https://r1.example:8443"; empty where they do not.
    https: str = ""

    def __post_init__(self) -> None:
        for name in ("name", "organisation", "address", "peer_address", "tls_name", "https"):
            if not isinstance(getattr(self, name), str):
                raise StudyError(f"a party's {name} must be text")
        if self.https:
            check_origin(self.https, f"https of {self.name}")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready form."""
        return {
            "name": self.name,
            "organisation": self.organisation,
            "address": self.address,
            "peer_address": self.peer_address,
            "tls_name": self.tls_name,
            "identity": encode_bytes(self.identity),
            "sealing": encode_bytes(self.sealing),
            "https": self.https,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Party:
        """Read what `to_dict` wrote."""
        return cls(
            **{**data, "identity": decode_bytes(data["identity"]), "sealing": decode_bytes(data["sealing"])}
        )

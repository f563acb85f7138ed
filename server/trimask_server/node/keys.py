"""A node's keys: who it is, how it is reached over TLS, and what its store is encrypted with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trimask_core.errors import ConfigError
from trimask_core.identity import SigningKey
from trimask_core.moments.secret import FILE_NAME as MOMENTS_KEY
from trimask_core.moments.secret import MomentsSecret
from trimask_core.party_files import read_secret
from trimask_core.signed_study import needs_commitment
from trimask_core.study import Study
from trimask_server.operations.certificates import OPERATOR_CERTIFICATE
from trimask_server.store.master_keys import KeyRing

__all__ = ["NodeKeys", "load_keys"]


@dataclass(frozen=True)
class NodeKeys:
    """A node's identity, TLS material, storage keys, its operator's certificate and, of a right provider, its secret for
    studies of the moments suite. A right provider has sealing keys besides (`right.sealing_keys`)."""

    identity: SigningKey
    certificate: bytes
    private_key: bytes
    roots: bytes
    operator: bytes = b""
    moments: MomentsSecret | None = None
    storage: KeyRing = field(default_factory=KeyRing.generate)

    def __repr__(self) -> str:
        return f"NodeKeys({self.identity!r})"

    def commitment(self, study: Study) -> bytes:
        """What this node's approval of a study commits to; nothing where its suite asks for nothing."""
        if not needs_commitment(study, study.role_of(self.identity.public)):
            return b""
        if self.moments is None:
            raise ConfigError(
                f"{MOMENTS_KEY} is missing: a right provider needs it to approve a study of the moments suite"
            )
        return self.moments.commitment(study.id)


def load_keys(folder: Path) -> NodeKeys:
    """The key files `trimask keys` writes."""

    def read(name: str) -> bytes:
        try:
            return (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"cannot read {folder / name}: {error.strerror}; `trimask keys` makes it"
            ) from None

    read("identity.key")  # for what it says of a file that is not there
    return NodeKeys(
        identity=SigningKey(read_secret(folder / "identity.key")),
        certificate=read("tls.pem"),
        private_key=read("tls.key"),
        roots=read("ca.pem"),
        operator=read(OPERATOR_CERTIFICATE) if (folder / OPERATOR_CERTIFICATE).exists() else b"",
        moments=MomentsSecret.load(folder) if (folder / MOMENTS_KEY).exists() else None,
        storage=KeyRing.open(folder),
    )

"""An operator's calls to its own node, on the peer port with the certificate that is pinned there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from trimask_client.grpc_channel import open_channel, plain_errors
from trimask_core.basics.errors import ConfigError, ConnectionFailed
from trimask_core.crypto.identity import SigningKey
from trimask_core.study.party import read_secret
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1 import governance_pb2 as pb
from trimask_proto.v1.governance_pb2_grpc import OperatorServiceStub
from trimask_server.runtime.audit import HEAD_FILE, AuditEntry, AuditHead
from trimask_server.settings.config import NodeConfig, load_config

_SECONDS = 30.0
_PAGE = 1000


@dataclass(frozen=True)
class Operator:
    """One node's operator, from the node's own configuration file."""

    config: NodeConfig

    @classmethod
    def of(cls, path: Path) -> Operator:
        """Read node.toml, whatever the node's role."""
        return cls(load_config(path))

    @property
    def identity(self) -> bytes:
        """The node's public identity."""
        return SigningKey(read_secret(self.config.keys / "identity.key")).public

    def kept_head(self) -> AuditHead | None:
        """The audit head beside the node's store."""
        path = self.config.data / HEAD_FILE
        return AuditHead.from_json(path.read_text(encoding="ascii")) if path.exists() else None

    @contextmanager
    def _stub(self) -> Iterator[OperatorServiceStub]:
        keys = self.config.keys
        certificate, key = keys / "operator" / "tls.pem", keys / "operator" / "tls.key"
        if not certificate.is_file() or not key.is_file():
            raise ConfigError(
                f"{keys} has no operator/tls.pem and tls.key: `trimask keys {keys} --operator` makes them"
            )
        target = _local(self.config.peer_listen)
        try:
            with (
                plain_errors(target),
                open_channel(
                    target, keys / "ca.pem", _own_name(keys / "tls.pem"), certificate, key
                ) as channel,
            ):
                yield OperatorServiceStub(channel)
        except ConnectionFailed as error:
            raise ConnectionFailed(f"is the node running? {error}") from None

    def status(self) -> pb.GetNodeStatusResponse:
        """The node's status."""
        with self._stub() as stub:
            return stub.GetNodeStatus(pb.GetNodeStatusRequest(), timeout=_SECONDS)

    def proposals(self) -> list[pb.Proposal]:
        """Every study proposed or registered."""
        with self._stub() as stub:
            return list(stub.ListProposals(pb.ListProposalsRequest(), timeout=_SECONDS).proposals)

    def show(self, study: str) -> tuple[pb.Proposal, SignedStudy]:
        """One study by the first digits of its id."""
        with self._stub() as stub:
            found = stub.ShowStudy(pb.ShowStudyRequest(study_id=_prefix(study)), timeout=_SECONDS)
        signed = SignedStudy.from_json(found.signed_study)
        if signed.study.id != found.proposal.study_id:
            raise ConfigError("the node sent a different study than it named")
        return found.proposal, signed

    def approve(self, study_id: bytes) -> None:
        """Have the node sign."""
        with self._stub() as stub:
            stub.ApproveStudy(pb.ApproveStudyRequest(study_id=study_id), timeout=_SECONDS)

    def refuse(self, study_id: bytes, reason: str) -> None:
        """Refuse."""
        with self._stub() as stub:
            stub.RefuseStudy(pb.RefuseStudyRequest(study_id=study_id, reason=reason), timeout=_SECONDS)

    def drain(self, *, resume: bool) -> int:
        """Stop new work, or accept it again; how many tasks still run."""
        with self._stub() as stub:
            return stub.DrainNode(pb.DrainNodeRequest(resume=resume), timeout=_SECONDS).running

    def audit(self, after: int = 0) -> Iterator[AuditEntry]:
        """The audit log, from the entry after a number."""
        with self._stub() as stub:
            while True:
                request = pb.ReadAuditRequest(after_sequence=after, page_size=_PAGE)
                page = stub.ReadAudit(request, timeout=_SECONDS).entries
                for item in page:
                    yield AuditEntry(
                        item.sequence, item.entry_time_ms, item.kind, item.details, item.previous, item.hash,
                        item.signature,
                    )  # fmt: skip
                if len(page) < _PAGE:
                    return
                after = page[-1].sequence


def _prefix(text: str) -> bytes:
    """The whole bytes in the first digits of an id."""
    digits = text.strip().lower()
    try:
        return bytes.fromhex(digits[: len(digits) // 2 * 2])
    except ValueError:
        raise ConfigError(f"{text!r} is not a study's id, nor its first digits") from None


def _local(address: str) -> str:
    """Where to call a node that listens on every interface."""
    host, _, port = address.rpartition(":")
    return f"127.0.0.1:{port}" if host in ("0.0.0.0", "[::]", "") else address  # noqa: S104 - called, not bound


def _own_name(path: Path) -> str:
    certificate = x509.load_pem_x509_certificate(path.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    found = names.get_values_for_type(x509.DNSName)
    if not found:
        raise ConfigError(f"{path} carries no DNS name")
    return found[0]

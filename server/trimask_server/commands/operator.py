"""`trimask node status|studies|approve|refuse|drain`: what an operator looks at and decides.

The calls go to the operator's own node, on the peer port with the certificate that is pinned there.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from rich.table import Table
from rich.text import Text

from trimask_client.grpc_channel import open_channel, plain_errors
from trimask_core.basics.errors import ConfigError, ConnectionFailed
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.party import read_secret
from trimask_core.study.signed import SignedStudy
from trimask_core.suites import collusion_of
from trimask_proto.v1 import governance_pb2 as pb
from trimask_proto.v1.governance_pb2_grpc import OperatorServiceStub
from trimask_server.runtime.audit import HEAD_FILE, AuditEntry, AuditHead
from trimask_server.settings.config import NodeConfig, load_config
from trimask_terminal.options import print_json, shown_time
from trimask_terminal.study_view import (
    agreed_to,
    approval_words,
    decision_word,
    make_console,
    render,
    render_collusion,
    summary,
)

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


def run_status(args: argparse.Namespace) -> int:
    """Show the node's status."""
    found = Operator.of(args.config).status()
    refusals = {item.reason: item.count for item in found.refusals}
    if args.json:
        print_json(
            {
                "name": found.name,
                "role": found.role,
                "identity": found.identity.hex(),
                "version": found.version,
                "started_ms": found.start_time_ms,
                "draining": found.draining,
                "studies": found.studies,
                "waiting": found.waiting,
                "allow_collectors": list(found.allow_collectors),
                "refusals": refusals,
                "audit_head": {
                    "sequence": found.audit_head.sequence,
                    "hash": found.audit_head.hash.hex(),
                    "signature": found.audit_head.signature.hex(),
                },
            }
        )
        return 0
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row(
        "node",
        f"{found.name} ({found.role}), version {found.version}, since {shown_time(found.start_time_ms)}",
    )
    table.add_row("identity", found.identity.hex())
    table.add_row("new work", "none: draining" if found.draining else "taken")
    table.add_row("studies", f"{found.studies} registered, {found.waiting} waiting for you")
    table.add_row("collectors", ", ".join(found.allow_collectors) or "any (allow_collectors is empty)")
    table.add_row(
        "refused", ", ".join(f"{reason} {count:,}" for reason, count in refusals.items()) or "nothing"
    )
    table.add_row("audit log", f"{found.audit_head.sequence:,} entries, head {found.audit_head.hash.hex()}")
    make_console().print(table)
    return 0


def run_studies(args: argparse.Namespace) -> int:
    """List the studies, or show one."""
    operator, console = Operator.of(args.config), make_console()
    if args.study is not None:
        proposal, signed = operator.show(args.study)
        decision = decision_word(proposal.decision)
        if args.json:
            print_json(
                summary(signed)
                | {
                    "role": proposal.role,
                    "decision": decision,
                    "reason": proposal.reason,
                    "state": proposal.state,
                }
            )
            return 0
        console.print(render(signed))
        console.print(Text())
        console.print(render_collusion(collusion_of(signed.study)))
        console.print(Text("\nIn plain words", style="bold"))
        for sentence in approval_words(signed.study, proposal.role):
            console.print(f"- {sentence}")
        said = f"{decision}: {proposal.reason}" if proposal.reason else decision
        console.print(
            f"\nYour decision: {said}" + (f"; the study is {proposal.state}" if proposal.state else "")
        )
        return 0
    found = operator.proposals()
    if args.json:
        print_json(
            [
                {
                    "id": item.study_id.hex(),
                    "title": item.title,
                    "collector": item.collector,
                    "role": item.role,
                    "decision": decision_word(item.decision),
                    "reason": item.reason,
                    "proposed_ms": item.propose_time_ms or None,
                    "state": item.state,
                }
                for item in found
            ]
        )
        return 0
    if not found:
        console.print("No study was proposed to this node yet.")
        return 0
    table = Table(box=None, pad_edge=False)
    for heading in ("study", "title", "run by", "this node is", "proposed", "decision", "state"):
        table.add_column(heading, header_style="dim", no_wrap=heading == "study")  # an id is copied whole
    for item in found:
        proposed = shown_time(item.propose_time_ms) if item.propose_time_ms else "by file"
        decision = decision_word(item.decision)
        table.add_row(
            item.study_id.hex()[:12], item.title, item.collector, item.role, proposed,
            f"{decision}: {item.reason}" if item.reason else decision, item.state or "-",
        )  # fmt: skip
    console.print(table)
    if any(decision_word(item.decision) == "waiting" for item in found):
        console.print(
            "\n`trimask node studies ID` says what a study asks and promises; then `approve ID` or `refuse ID`."
        )
    return 0


def run_approve(args: argparse.Namespace) -> int:
    """Approve a study at the node."""
    from trimask_theory.planning.study_plan import verify_guarantees  # scipy comes with it

    operator, console = Operator.of(args.config), make_console()
    proposal, signed = operator.show(args.study)
    console.quiet = args.json
    if not agreed_to(
        signed.study, proposal.role, console, recompute=verify_guarantees, sure=args.yes or args.json
    ):
        console.print("Not approved; nothing was signed.")
        return 1
    operator.approve(signed.study.id)
    if args.json:
        print_json({"id": signed.study.id.hex(), "role": proposal.role, "decision": "approved"})
    console.print(f"Approved as {proposal.role}; the study's owner can gather the signature now.")
    return 0


def run_refuse(args: argparse.Namespace) -> int:
    """Refuse a study at the node."""
    operator = Operator.of(args.config)
    proposal, signed = operator.show(args.study)
    operator.refuse(signed.study.id, args.reason)
    if args.json:
        print_json(
            {"id": signed.study.id.hex(), "role": proposal.role, "decision": "refused", "reason": args.reason}
        )
    else:
        stopped = "; this node accepts no more submissions to it" if proposal.state == "open" else ""
        print(
            f"Refused {signed.study.title!r}{stopped}. The study's owner sees the reason with `trimask study approvals`."
        )
    return 0


def run_drain(args: argparse.Namespace) -> int:
    """Drain, or accept new work again."""
    running = Operator.of(args.config).drain(resume=args.resume)
    if args.json:
        print_json({"draining": not args.resume, "running": running})
    elif args.resume:
        print("New work is accepted again.")
    else:
        still = f"{running} tasks still run" if running else "nothing runs any more"
        print(
            f"Draining: no new submissions are accepted and no attempts started; devices and the collector wait. "
            f"{still.capitalize()}."
        )
    return 0

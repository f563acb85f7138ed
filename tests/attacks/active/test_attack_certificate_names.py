"""Certificates of the authority everybody trusts, with the owner's name where it does not count.

A peer is known by a DNS name in its certificate, exactly. An authority that checks who has a domain says nothing about the
other kinds of names it may copy from a request: a URI, an address, a common name.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimask_client.grpc_channel import open_channel
from trimask_lab import Lab
from trimask_patience import patience
from trimask_proto.v1 import study_pb2
from trimask_proto.v1.common_pb2 import CloseOrder
from trimask_proto.v1.study_pb2_grpc import StudyOwnerServiceStub
from trimask_server.local.keys import load_authority

OWNER = "owner.trimask.local"
OTHERS = x509.DNSName("somebody.example.org")
NAMES: dict[str, list[x509.GeneralName]] = {
    "uri": [OTHERS, x509.UniformResourceIdentifier(OWNER)],
    "uri alone": [x509.UniformResourceIdentifier(f"spiffe://{OWNER}")],
    "mail": [OTHERS, x509.RFC822Name(OWNER)],
    "address": [OTHERS, x509.IPAddress(ipaddress.ip_address("127.0.0.1"))],
    "common name alone": [],
    "directory": [OTHERS, x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, OWNER)]))],
    "wildcard": [x509.DNSName("*.trimask.local"), x509.DNSName("*")],
    "below": [x509.DNSName(f"x.{OWNER}"), x509.DNSName(f"{OWNER}.example.org")],
    "with a zero byte": [x509.DNSName(f"{OWNER}\0.example.org")],
}


def call_as(lab: Lab, folder: Path, names: list[x509.GeneralName]) -> tuple[grpc.StatusCode, str]:
    """What the collector says to somebody with such a certificate who closes a study it does not know."""
    authority = load_authority(lab.folder / "authority")
    signer: Any = serialization.load_pem_private_key(authority.private_key, None)
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, OWNER)]))
        .issuer_name(x509.load_pem_x509_certificate(authority.certificate).subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    (folder / "tls.pem").write_bytes(
        builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    )
    (folder / "tls.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    party = lab.parties["collector"]
    with open_channel(
        party.peer_address,
        lab.owner / "ca.pem",
        tls_name=party.tls_name,
        certificate=folder / "tls.pem",
        key=folder / "tls.key",
    ) as channel:
        stub: Any = StudyOwnerServiceStub(channel)
        with pytest.raises(grpc.RpcError) as caught:
            stub.CloseStudy(
                study_pb2.CloseStudyRequest(order=CloseOrder(study_id=bytes(32))), timeout=patience(20)
            )
        trailers = dict(caught.value.trailing_metadata() or ())
        return caught.value.code(), str(trailers.get("trimask-reason", ""))


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_of_another_kind_is_nobodys(lab: Lab, tmp_path: Path, kind: str) -> None:
    code, reason = call_as(lab, tmp_path, NAMES[kind])
    # Refused by the gate, or before that by TLS itself.
    assert reason == "not_your_role" or (code is grpc.StatusCode.UNAVAILABLE and not reason)


def test_the_dns_name_is_the_owners(lab: Lab, tmp_path: Path) -> None:
    assert call_as(lab, tmp_path, [OTHERS, x509.DNSName(OWNER)])[1] == "unknown_study"

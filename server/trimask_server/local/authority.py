"""A certificate authority for development, and the TLS certificates it issues. An institution uses its own."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimask_core.errors import ConfigError

__all__ = [
    "Authority",
    "Certificate",
    "issue_certificate",
    "load_authority",
    "make_authority",
    "self_signed_client",
]

_AUTHORITY_DAYS = 3650
_NODE_DAYS = 397
_SKEW = dt.timedelta(hours=1)  # for peers whose clock is a little behind


@dataclass(frozen=True)
class Certificate:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    private_key: bytes = field(repr=False)


@dataclass(frozen=True)
class Authority(Certificate):
    """A certificate that may sign others."""


def make_authority(
    now: dt.datetime | None = None, common_name: str = "Trimask development authority"
) -> Authority:
    """A fresh certificate authority. For development: an institution uses its own."""
    now = now or dt.datetime.now(dt.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def issue_certificate(
    authority: Authority,
    dns_name: str,
    not_before: dt.datetime | None = None,
    not_after: dt.datetime | None = None,
    place: str = "",
) -> Certificate:
    """A certificate for one DNS name, for servers and clients; by default valid for 397 days from now.

    One for browsers also names `place`, the host name or IP address they come to.
    """
    now = dt.datetime.now(dt.UTC)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.private_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError("the authority's key must be an elliptic-curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, dns_name)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before or now - _SKEW)
        .not_valid_after(not_after or now + dt.timedelta(days=_NODE_DAYS))
        .add_extension(x509.SubjectAlternativeName(_names(dns_name, place)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def self_signed_client(dns_name: str) -> Certificate:
    """A certificate that no authority has signed, for a client that a server knows by this certificate alone."""
    now, key = dt.datetime.now(dt.UTC), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, dns_name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + dt.timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(dns_name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certificate(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def load_authority(folder: Path) -> Authority:
    """The authority `make_keys` wrote."""
    return Authority((folder / "ca.pem").read_bytes(), (folder / "ca.key").read_bytes())


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


def _names(dns_name: str, place: str) -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName(dns_name)]
    if place:
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(place)))
        except ValueError:
            names.append(x509.DNSName(place))
    return names

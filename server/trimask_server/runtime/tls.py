"""TLS material that can be replaced while the node runs.

gRPC asks for the certificate at every handshake, so connections made after a reload see the new one and those made before
live on. What is new is checked before it is used: a file that does not parse, a key that belongs to another certificate, an
expired certificate or one without the node's name would cut the node off, so the old one stays and the failure is counted.

Who makes a call: the DNS names in a certificate, and the roles a study gives them.

A node is known to its peers by the DNS name in its certificate, which the study names as `tls_name`. That holds for
certificates of a private authority and for public ones alike, and survives their renewal.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from trimask_core.basics.errors import ConfigError, Refused
from trimask_core.basics.refusals import Reason
from trimask_core.study.definition import Study

Context = grpc.aio.ServicerContext[Any, Any]


def peer_names(context: Context) -> frozenset[str]:
    """The DNS names in the caller's certificate; empty on a connection without one.

    Only those: an authority that checks who has a domain vouches for no URI, mail address or common name beside it. gRPC
    ends a name at a zero byte, so what it says is held against the certificate itself.
    """
    auth = context.auth_context()
    names = frozenset(bytes(name).decode() for name in auth.get("peer_dns", []))
    certificates = [bytes(item) for item in auth.get("x509_pem_cert", [])]
    return names & _dns_names(certificates[0]) if certificates else names


@lru_cache(maxsize=1024)
def _dns_names(pem: bytes) -> frozenset[str]:
    try:
        found = x509.load_pem_x509_certificate(pem).extensions
        names = found.get_extension_for_class(x509.SubjectAlternativeName).value
        return frozenset(names.get_values_for_type(x509.DNSName))
    except (x509.ExtensionNotFound, ValueError):
        return frozenset()


def require_role(context: Context, study: Study, roles: Iterable[str]) -> str:
    """Which of the roles in the study a caller plays; refused if it is none."""
    names = peer_names(context)
    wanted = list(roles)
    found = next((role for role in wanted if study.party(role).tls_name in names), None)
    if found is None:
        raise Refused(Reason.NOT_YOUR_ROLE, f"only {' or '.join(wanted) or 'nobody'} may call this")
    return found


OPERATOR_CERTIFICATE = "operator/tls.pem"
# What browsers are shown, where it is another certificate than the one peers and devices know: one that browsers trust.
HTTPS_CERTIFICATE, HTTPS_KEY = "https.pem", "https.key"
FILES = ("tls.pem", "tls.key", "ca.pem")
_WATCHED = (*FILES, OPERATOR_CERTIFICATE, HTTPS_CERTIFICATE, HTTPS_KEY, "sealing.keys")
WARN_DAYS = 14
_DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class TlsMaterial:
    """A certificate chain, its key, the authorities to trust, and the operator's certificate if there is one, all PEM."""

    certificate: bytes
    private_key: bytes = field(repr=False)
    roots: bytes
    operator: bytes = b""

    @property
    def client_roots(self) -> bytes:
        """Whom to let in on the peer port. The operator's certificate signs itself: no authority of the peers' can make
        one that is taken for it."""
        return self.roots + b"\n" + self.operator

    def check_fit(self) -> None:
        """Raise `ConfigError` if the files are not what they should be, or do not fit together."""
        leaf = _leaf(self.certificate)
        try:
            key = load_pem_private_key(self.private_key, None)
        except (ValueError, TypeError):
            raise ConfigError("tls.key is not an unencrypted private key in PEM form") from None
        if key.public_key() != leaf.public_key():
            raise ConfigError("tls.key does not belong to the certificate in tls.pem; renew both together")
        try:
            x509.load_pem_x509_certificates(self.roots)
        except ValueError:
            raise ConfigError("ca.pem holds no certificates in PEM form") from None

    def check(self, now_ms: int, names: frozenset[str] = frozenset()) -> None:
        """Raise `ConfigError` if a node could not serve with this now, or not under all of `names`."""
        self.check_fit()
        leaf = _leaf(self.certificate)
        now = dt.datetime.fromtimestamp(now_ms / 1000, dt.UTC)
        if not leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
            raise ConfigError(
                f"the certificate in tls.pem is valid from {leaf.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                f"{leaf.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, not now"
            )
        missing = names - dns_names(self.certificate)
        if missing:
            raise ConfigError(
                f"the certificate in tls.pem lacks the name {min(missing)}, by which peers know this node"
            )


def _leaf(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(pem)[0]
    except ValueError:
        raise ConfigError("tls.pem is not a certificate in PEM form") from None


def dns_names(pem: bytes) -> frozenset[str]:
    """The DNS names of the first certificate."""
    try:
        found = _leaf(pem).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(found.value.get_values_for_type(x509.DNSName))


def read_material(folder: Path) -> TlsMaterial:
    """The TLS files of a node's key folder."""
    operator = folder / OPERATOR_CERTIFICATE
    try:
        certificate, key, roots = ((folder / name).read_bytes() for name in FILES)
        return TlsMaterial(certificate, key, roots, operator.read_bytes() if operator.exists() else b"")
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename}: {error.strerror}") from None


def https_files(folder: Path) -> tuple[Path, Path]:
    """The certificate and key that browsers are shown."""
    own = folder / HTTPS_CERTIFICATE
    return (own, folder / HTTPS_KEY) if own.exists() else (folder / FILES[0], folder / FILES[1])


class Certificates:
    """What the node serves with now."""

    def __init__(self, material: TlsMaterial, folder: Path | None = None) -> None:
        self.material = material
        self._folder = folder
        self._seen = self._signature()

    @property
    def expires_ms(self) -> int:
        """When the certificate ends."""
        return int(_leaf(self.material.certificate).not_valid_after_utc.timestamp() * 1000)

    def ends_ms(self) -> dict[str, int]:
        """When each certificate ends, by its file: the node's, and that for browsers, as it is on disk, where it has one."""
        ends = {FILES[0]: self.expires_ms}
        if self._folder is not None:
            with contextlib.suppress(OSError, ConfigError):
                leaf = _leaf((self._folder / HTTPS_CERTIFICATE).read_bytes())
                ends[HTTPS_CERTIFICATE] = int(leaf.not_valid_after_utc.timestamp() * 1000)
        return ends

    @property
    def begins_ms(self) -> int:
        """From when on it is valid."""
        return int(_leaf(self.material.certificate).not_valid_before_utc.timestamp() * 1000)

    def days_left(self, now_ms: int) -> float:
        """Days until then; negative afterwards."""
        return (self.expires_ms - now_ms) / _DAY_MS

    def expires_soon(self, now_ms: int) -> bool:
        """Whether it should be renewed by now."""
        return self.days_left(now_ms) < WARN_DAYS

    def changed(self) -> bool:
        """Whether a file is another one than at the last look."""
        found = self._signature()
        changed, self._seen = found != self._seen, found
        return changed

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        if self._folder is None:
            return ()
        found = []
        for name in _WATCHED:
            try:
                status = (self._folder / name).stat()
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((status.st_mtime_ns, status.st_size, status.st_ino))
        return tuple(found)

    def reload(self, now_ms: int) -> bool:
        """Read the files again and use them; whether anything is new. Unusable files raise and change nothing."""
        if self._folder is None:
            return False
        fresh = read_material(self._folder)
        if fresh == self.material:
            return False
        fresh.check(now_ms, dns_names(self.material.certificate))
        self.material = fresh
        return True

    def server_credentials(self, *, mutual: bool) -> grpc.ServerCredentials:
        """Credentials that look here at every handshake.

        gRPC is told of a certificate only when it is another one than before. Told again at every handshake, 1.85 loses
        count of who uses the old one, and a hundred silent connections end the process ("Check failed: prior > 0").
        """
        told = self.material

        def configuration(held: TlsMaterial) -> grpc.ServerCertificateConfiguration:
            return grpc.ssl_server_certificate_configuration(
                [(held.private_key, held.certificate)],
                root_certificates=held.client_roots if mutual else None,
            )

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal told
            if self.material is told:
                return None
            told = self.material
            return configuration(told)

        # gRPC takes None for "as before"; its type stubs do not say so.
        fetch = cast("Callable[[], grpc.ServerCertificateConfiguration]", changed)
        return grpc.dynamic_ssl_server_credentials(
            configuration(told), fetch, require_client_authentication=mutual
        )

"""A node's keys: a TLS certificate from an authority, an Ed25519 identity, an X25519 key where rows arrive.

Peers are known by the one DNS name in a certificate (`tls_name`), never by where they listen, so a node
may move without a new certificate, and holding a host gives nobody another party's name. Key files have mode
0600 from the start and are never overwritten.

The certificate authority here is for development; an institution uses its own.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.moments.report import FILE_NAME as MOMENTS_KEY
from trimask_core.study.party import ADMISSION_KEY, Party, load_party, read_secret, role_of_name
from trimask_server.right.sealing_keys import HYBRID_FILE, RING_FILE, SINGLE_FILE, load_ring
from trimask_server.runtime.tls import HTTPS_CERTIFICATE, HTTPS_KEY
from trimask_server.store.data_keys import FILE_NAME as STORAGE_KEYS
from trimask_server.store.data_keys import KeyRing, create_secret

CARD_FILE = "node.json"

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
    now, key = now or dt.datetime.now(dt.UTC), ec.generate_private_key(ec.SECP256R1())
    ends = now + dt.timedelta(days=_AUTHORITY_DAYS)
    pem = _sign(key, common_name, now - _SKEW, ends, [_key_id(key)], authority=True)
    return Authority(pem, _private_pem(key))


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
    now, key = dt.datetime.now(dt.UTC), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signer = serialization.load_pem_private_key(authority.private_key, None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ConfigError("the authority's key must be an elliptic-curve key")
    issuer_id = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    pem = _sign(
        key,
        dns_name,
        not_before or now - _SKEW,
        not_after or now + dt.timedelta(days=_NODE_DAYS),
        [
            x509.SubjectAlternativeName(_names(dns_name, place)),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
            _key_id(key),
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id),
        ],
        issuer=(issuer.subject, signer),
    )
    return Certificate(pem, _private_pem(key))


def self_signed_client(dns_name: str) -> Certificate:
    """A certificate that no authority has signed, for a client that a server knows by this certificate alone."""
    now, key = dt.datetime.now(dt.UTC), ec.generate_private_key(ec.SECP256R1())
    said = [
        x509.SubjectAlternativeName([x509.DNSName(dns_name)]),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),
    ]
    pem = _sign(key, dns_name, now - _SKEW, now + dt.timedelta(days=_AUTHORITY_DAYS), said)
    return Certificate(pem, _private_pem(key))


def _sign(
    key: ec.EllipticCurvePrivateKey,
    common_name: str,
    begins: dt.datetime,
    ends: dt.datetime,
    extensions: Iterable[x509.ExtensionType],
    *,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    authority: bool = False,
) -> bytes:
    """A certificate in PEM form; its own key signs it where no issuer does."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    by, signer = issuer or (subject, key)
    builder = x509.CertificateBuilder(
        by, subject, key.public_key(), x509.random_serial_number(), begins, ends
    )
    builder = builder.add_extension(x509.BasicConstraints(authority, 0 if authority else None), critical=True)
    builder = builder.add_extension(_key_usage(authority=authority), critical=True)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key_id(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


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


_OPERATOR = "operator.trimask.local"


@dataclass(frozen=True)
class NodePlace:
    """A node to make keys for. `listen` is empty for a left provider: devices never call it; others may be empty too."""

    name: str
    listen: str
    peer_listen: str
    organisation: str = ""
    http_listen: str = ""
    https_listen: str = ""


def tls_name(name: str) -> str:
    """The DNS name a node's certificate carries."""
    return f"{name.lower()}.trimask.local"


def make_node(folder: Path, place: NodePlace, authority: Authority) -> Party:
    """Every file of a node in `folder`, and its public card (also written, as node.json)."""
    role = role_of_name(place.name)
    _make_folder(folder)
    _write_tls(folder, authority, tls_name(place.name))
    if place.https_listen:
        _write_https(folder, authority, place)
    if not make_secrets(folder, role)[folder / "identity.key"]:
        raise ConfigError(f"{folder / 'identity.key'} exists already; keys are never overwritten")
    party = own_card(
        folder,
        Party(
            name=place.name,
            organisation=place.organisation or f"Development {place.name}",
            address=place.listen,
            peer_address=place.peer_listen,
            tls_name=tls_name(place.name),
            identity=b"",
            https=f"https://{place.https_listen}" if place.https_listen else "",
        ),
    )
    _write(folder / CARD_FILE, card_text(party).encode())
    more = []
    if role != "left" and place.listen.rpartition(":")[0] in _LOOPBACK:
        more.append("rate_limit_per_second = 0  # every caller here has this machine's address")
    listens = (place.listen, place.peer_listen, place.https_listen, place.http_listen)
    _write(folder / "node.toml", settings_text(role, place.name, "data", ".", listens, more).encode())
    return party


def make_secrets(keys: Path, role: str) -> dict[Path, bool]:
    """The secrets that a node of a role needs, where they are missing; each file, and whether it was made."""
    made = {
        keys / "identity.key": create_secret(
            keys / "identity.key", _hex(SigningKey.generate().secret_bytes())
        )
    }
    if role == "right":
        if not (keys / RING_FILE).exists():
            for file in (SINGLE_FILE, HYBRID_FILE):
                made[keys / file] = create_secret(keys / file, _hex(SystemRandom().seed()))
        made[keys / MOMENTS_KEY] = create_secret(keys / MOMENTS_KEY, _hex(SystemRandom().seed()))
        # Ledgers of what was delivered, which a restored database must not forget: the node writes them.
        made[keys / "moments"] = not (keys / "moments").exists()
        (keys / "moments").mkdir(mode=0o700, exist_ok=True)
    made[keys / STORAGE_KEYS] = not (keys / STORAGE_KEYS).exists()
    KeyRing.open(keys)
    operator = keys / "operator" / "tls.pem"
    made[operator] = not operator.exists()
    if made[operator]:
        make_operator(keys)
    return made


def own_card(keys: Path, party: Party | None = None) -> Party:
    """A node's card with the public halves of the keys it has now."""
    if party is None:
        path = keys / CARD_FILE
        if not path.exists():
            raise ConfigError(f"{path} is missing; `trimask node init` makes it")
        party = load_party(path)
    identity = SigningKey(read_secret(keys / "identity.key")).public
    if role_of_name(party.name) != "right":
        return replace(party, identity=identity)
    ring, now_ms = load_ring(keys), SystemClock().now_ms()
    hybrid = ring.newest("hybrid", now_ms)
    return replace(party, identity=identity, sealing=ring.newest("classical", now_ms), sealing_hybrid=hybrid)


def card_text(party: Party) -> str:
    """A card as its file has it."""
    return json.dumps(party.to_dict(), indent=1) + "\n"


_LISTENS = {
    "listen": "devices and researchers (TLS)",
    "peer_listen": "nodes and the owner (mutual TLS)",
    "https_listen": "browsers (HTTPS)",
    "http_listen": "health, metrics and status pages (plain HTTP)",
}


def settings_text(
    role: str, name: str, data: str, keys: str, listens: Sequence[str], more: Sequence[str]
) -> str:
    """A node.toml; a TOML basic string is a JSON string."""

    def said(setting: str, value: str, words: str) -> str:
        return f"{setting} = {json.dumps(value, ensure_ascii=False)}  # {words}"

    lines = [
        said("name", name, "collector, R1, R2, ... or L1, L2, ..."),
        said("data", data, "folder of the store, and of what is published"),
        said("keys", keys, "folder of the keys, relative to this file"),
        *(said(one, at, _LISTENS[one]) for one, at in zip(_LISTENS, listens, strict=True) if at),
        *more,
    ]
    if role != "collector":
        lines.append(
            '# allow_collectors = ["collector.example.org"]  # whose studies may be proposed here; all if left out'
        )
    return "\n".join(lines) + "\n"


def make_operator(folder: Path) -> None:
    """The certificate of a node's operator, in the node's own folder of keys.

    It signs itself, and the node takes this one and no other: an authority that the peers trust cannot make an operator.
    """
    target = folder / "operator"
    _make_folder(target)
    signed = self_signed_client(_OPERATOR)
    _write(target / "tls.pem", signed.certificate)
    _write(target / "tls.key", signed.private_key, secret=True)


def make_owner(folder: Path, authority: Authority) -> None:
    """The study owner's certificate, with which studies are opened and closed, and the key that signs invitations."""
    _make_folder(folder)
    _write_tls(folder, authority, tls_name("owner"))
    _write(folder / ADMISSION_KEY, _hex(SigningKey.generate().secret_bytes()).encode(), secret=True)


def make_keys(folder: Path, places: list[NodePlace]) -> dict[str, Party]:
    """An authority, the owner and every node under `folder`, which must not have an authority yet."""
    if (folder / "authority").exists():
        raise ConfigError(
            f"{folder} already holds keys; give another folder, or remove it if they are not in use"
        )
    authority = make_authority()
    _make_folder(folder / "authority")
    _write(folder / "authority" / "ca.pem", authority.certificate)
    _write(folder / "authority" / "ca.key", authority.private_key, secret=True)
    make_owner(folder / "owner", authority)
    return {place.name: make_node(folder / place.name, place, authority) for place in places}


def node_places(
    right: int, left: int, host: str, base_port: int, *, http: bool = False, https: bool = False
) -> list[NodePlace]:
    """Two ports a node, from `base_port`: the collector, R1.., then L1.., which use the second alone.

    With `http`, a port each after those, on loopback, for health, metrics and the collector's status page. With `https`, a
    port each after all of those, for browsers; left providers do not use theirs.
    """
    if right < 2 or left < 0:
        raise ConfigError(
            "a study needs two right providers at least; one of the rows suite a left provider too"
        )
    names = ["collector", *(f"R{k}" for k in range(1, right + 1)), *(f"L{j}" for j in range(1, left + 1))]
    ports = (2 + http + https) * len(names)
    if not 1 <= base_port <= 65536 - ports:
        raise ConfigError(f"base port must be between 1 and {65536 - ports} for {len(names)} nodes")
    shown = f"[{host}]" if ":" in host else host
    return [
        NodePlace(
            name,
            "" if role_of_name(name) == "left" else f"{shown}:{base_port + 2 * i}",
            f"{shown}:{base_port + 2 * i + 1}",
            http_listen=f"127.0.0.1:{base_port + 2 * len(names) + i}" if http else "",
            https_listen=f"{shown}:{base_port + (2 + http) * len(names) + i}"
            if https and role_of_name(name) != "left"
            else "",
        )
        for i, name in enumerate(names)
    ]


_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def _write_tls(folder: Path, authority: Authority, dns_name: str) -> None:
    issued = issue_certificate(authority, dns_name)
    _write(folder / "tls.pem", issued.certificate)
    _write(folder / "tls.key", issued.private_key, secret=True)
    _write(folder / "ca.pem", authority.certificate)


def _write_https(folder: Path, authority: Authority, place: NodePlace) -> None:
    """What a browser is shown: here of the development authority, in production one that browsers trust."""
    host = place.https_listen.rpartition(":")[0].strip("[]")
    issued = issue_certificate(authority, tls_name(place.name), place=host)
    _write(folder / HTTPS_CERTIFICATE, issued.certificate)
    _write(folder / HTTPS_KEY, issued.private_key, secret=True)


def _make_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, content: bytes, *, secret: bool = False) -> None:
    """Create a file that does not exist yet, never readable by others for an instant if it is a secret."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if secret else 0o644)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; keys are never overwritten") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _hex(secret: bytes) -> str:
    return secret.hex() + "\n"

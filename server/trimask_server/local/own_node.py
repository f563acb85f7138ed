"""One institution's own node, from nothing: its keys, a certificate request, its settings and its card.

Made where they are used and never anywhere else. Existing files are kept, so it can be run again after an upgrade to make
what a newer version needs.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimask_core.basics.clock import SystemClock
from trimask_core.basics.encoding import check_letters
from trimask_core.basics.errors import ConfigError
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.identity import SigningKey
from trimask_core.crypto.sealing import SealingKey
from trimask_core.moments.secret import FILE_NAME as MOMENTS_KEY
from trimask_core.study.party import Party, load_party, read_secret, role_of_name
from trimask_server.local.keys import make_operator
from trimask_server.right.sealing_keys import RING_FILE, SINGLE_FILE, load_ring
from trimask_server.runtime.ports import split_address
from trimask_server.store.master_keys import FILE_NAME as STORAGE_KEYS
from trimask_server.store.master_keys import KeyRing, create_secret

CARD_FILE = "node.json"
REQUEST_FILE = "tls.csr"
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


@dataclass(frozen=True)
class OwnNode:
    """The choices for a new node. `address`, `peer_address` and `https` are where others reach it."""

    name: str
    dns_name: str
    organisation: str
    data: Path
    address: str
    peer_address: str
    listen: str
    peer_listen: str
    http_listen: str
    owner_tls_name: str = ""
    https_listen: str = ""
    https: str = ""


def make_own_node(folder: Path, node: OwnNode) -> dict[str, str]:
    """Make what is missing in `folder` (node.toml) and `folder`/keys; each file, and whether it was made or kept."""
    role = role_of_name(node.name)
    _check(node, role)
    keys = folder / "keys"
    if (keys / CARD_FILE).exists():
        _refuse_another(keys / CARD_FILE, node)
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    done: dict[str, str] = {}

    def note(path: Path, *, made: bool) -> None:
        done[str(path)] = "made" if made else "kept"

    made = create_secret(keys / "identity.key", _hex(SigningKey.generate().secret_bytes()))
    note(keys / "identity.key", made=made)
    if role == "right":
        if not (keys / RING_FILE).exists():
            made = create_secret(keys / SINGLE_FILE, _hex(SealingKey.generate().secret_bytes()))
            note(keys / SINGLE_FILE, made=made)
        note(keys / MOMENTS_KEY, made=create_secret(keys / MOMENTS_KEY, _hex(SystemRandom().seed())))
        # Ledgers of what was delivered, which a restored database must not forget: the node writes them.
        made = not (keys / "moments").exists()
        (keys / "moments").mkdir(mode=0o700, exist_ok=True)
        note(keys / "moments", made=made)
    made = not (keys / STORAGE_KEYS).exists()
    KeyRing.open(keys)
    note(keys / STORAGE_KEYS, made=made)
    made = not (keys / "operator" / "tls.pem").exists()
    if made:
        make_operator(keys)
    note(keys / "operator" / "tls.pem", made=made)
    made = _request_certificate(keys, node.dns_name)
    note(keys / "tls.key", made=made)
    note(keys / REQUEST_FILE, made=made)
    made = not (keys / CARD_FILE).exists()
    card = own_card(keys, _party(node))
    (keys / CARD_FILE).write_text(json.dumps(card.to_dict(), indent=1) + "\n", encoding="utf-8")
    note(keys / CARD_FILE, made=made)
    settings = folder / "node.toml"
    if made := not settings.exists():
        settings.write_text(_settings(node, role), encoding="utf-8")
    note(settings, made=made)
    return done


def _check(node: OwnNode, role: str) -> None:
    """Refuse choices that no node could be reached or known by, before anything is made."""
    if not _DNS_NAME.fullmatch(node.dns_name) or node.dns_name.rpartition(".")[2].isdigit():
        raise ConfigError(
            f"{node.dns_name!r} is not a DNS name: give the name by which others reach the node, in lower case, as "
            "r2.example.org (peers know a node by the name in its certificate, never by an IP address)"
        )
    if not node.organisation.strip():
        raise ConfigError("the organisation must not be empty: participants are shown who runs the node")
    check_letters(_party(node).to_dict())
    settings = ["peer_listen", "http_listen", "https_listen", *([] if role == "left" else ["listen"])]
    for setting in settings:
        address = getattr(node, setting)
        if address:
            split_address(setting, address)


def _request_certificate(keys: Path, dns_name: str) -> bool:
    """A key for TLS, and a request that an authority signs: the key itself never leaves the folder."""
    if (keys / "tls.key").exists():
        return False
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, dns_name)]))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(dns_name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (keys / REQUEST_FILE).write_bytes(request.public_bytes(serialization.Encoding.PEM))
    return create_secret(keys / "tls.key", pem.decode("ascii"))


def _refuse_another(path: Path, node: OwnNode) -> None:
    """Refuse settings that belong to another node than the one in the folder."""
    card = load_party(path)
    if card.name != node.name or card.tls_name != node.dns_name:
        raise ConfigError(
            f"{path} is the card of {card.name} ({card.tls_name}), not of {node.name} ({node.dns_name}): give another folder"
        )


def own_card(keys: Path, party: Party | None = None) -> Party:
    """A node's card with the public halves of the keys it has now."""
    if party is None:
        path = keys / CARD_FILE
        if not path.exists():
            raise ConfigError(f"{path} is missing; `trimask node init` makes it")
        party = load_party(path)
    sealing = b""
    if role_of_name(party.name) == "right":
        ring = load_ring(keys)
        sealing = (ring.active(SystemClock().now_ms()) or list(ring.keys))[0].key.public
    identity = SigningKey(read_secret(keys / "identity.key")).public
    return replace(party, identity=identity, sealing=sealing)


def _party(node: OwnNode) -> Party:
    return Party(
        node.name, node.organisation, node.address, node.peer_address, node.dns_name, b"", https=node.https
    )


def _settings(node: OwnNode, role: str) -> str:
    lines = [
        f"name = {_text(node.name)}",
        f"data = {_text(str(node.data))}  # the store, and what is published",
        'keys = "keys"  # folder, relative to this file',
    ]
    if role != "left":
        lines.append(f"listen = {_text(node.listen)}  # devices and researchers (TLS)")
    lines.append(f"peer_listen = {_text(node.peer_listen)}  # nodes and the owner (mutual TLS)")
    if node.https_listen:
        lines.append(f"https_listen = {_text(node.https_listen)}  # browsers (HTTPS)")
    if node.http_listen:
        lines.append(f"http_listen = {_text(node.http_listen)}  # health and metrics (plain HTTP)")
    if role == "collector":
        owner = node.owner_tls_name or "owner.trimask.local"
        lines.append(f"owner_tls_name = {_text(owner)}  # the name in the owner's certificate")
    else:
        lines.append(
            '# allow_collectors = ["collector.example.org"]  # whose studies may be proposed here; all if left out'
        )
    lines.append('log_format = "json"')
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """As TOML writes it; a TOML basic string is a JSON string."""
    return json.dumps(value, ensure_ascii=False)


def _hex(secret: bytes) -> str:
    return secret.hex() + "\n"

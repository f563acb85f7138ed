"""`trimask node init|card`: a node from nothing, and what its operator hands to a study's owner.

Keys, a certificate request, settings and the card are made where they are used and never anywhere else. Existing files are
kept, so it can be run again after an upgrade to make what a newer version needs.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trimask_core.basics.encoding import check_letters
from trimask_core.basics.errors import ConfigError
from trimask_core.crypto.keys import SEALINGS
from trimask_core.study.party import Party, fingerprint, load_party, role_of_name
from trimask_server.local.keys import CARD_FILE, card_text, make_secrets, own_card, settings_text
from trimask_server.runtime.ports import split_address
from trimask_server.settings.config import load_config
from trimask_server.store.data_keys import create_secret
from trimask_terminal.options import print_json


def run_init(args: argparse.Namespace) -> int:
    """Make what is missing, and say what comes next."""
    role = role_of_name(args.name)
    listens = {
        "listen": "" if role == "left" else args.listen, "peer_listen": args.peer_listen,
        "https_listen": args.https_listen, "http_listen": args.http_listen,
    }  # fmt: skip
    party = Party(
        args.name,
        args.organisation,
        "" if role == "left" else _reached(args.dns, args.listen),
        _reached(args.dns, args.peer_listen),
        args.dns,
        b"",
        https=args.https or _origin(args.dns, args.https_listen),
    )
    _check(party, listens)
    more = ['log_format = "json"']
    if role == "collector":
        owner = json.dumps(args.owner_dns or "owner.trimask.local")
        more.append(f"owner_tls_name = {owner}  # the name in the owner's certificate")
    settings = settings_text(role, args.name, str(args.data), "keys", tuple(listens.values()), more)
    done = _make_node(args.folder, party, settings)
    keys = args.folder / "keys"
    mark = fingerprint(own_card(keys))
    if args.json:
        print_json({"files": done, "fingerprint": mark})
        return 0
    for path, what in done.items():
        print(f"{what}  {path}")
    config = args.folder / "node.toml"
    print(
        f"\nFingerprint of {args.name}, to read to the study's owner: {mark}\n"
        "Next:\n"
        f"  1. have {keys / 'tls.csr'} signed for {args.dns} (or let your ACME client make tls.key and tls.pem), and put\n"
        f"     the chain into {keys / 'tls.pem'} and the authorities of the study's nodes into {keys / 'ca.pem'}\n"
        f"  2. trimask node doctor --config {config}\n"
        f"  3. trimask node card --config {config} --out {args.name}.json     for the study's owner"
    )
    return 0


def run_card(args: argparse.Namespace) -> int:
    """Print or write the card."""
    card = own_card(load_config(args.config).keys)
    if args.out is not None:
        args.out.write_text(json.dumps(card.to_dict(), indent=1) + "\n", encoding="utf-8")
    if args.json:
        print_json({**card.to_dict(), "fingerprint": fingerprint(card)})
        return 0
    print(f"node          {card.name}, run by {card.organisation}")
    print(f"for devices   {card.address or '-'}")
    print(f"for browsers  {card.https or '-'}")
    print(f"for nodes     {card.peer_address}")
    print(f"TLS name      {card.tls_name}")
    print(f"fingerprint   {fingerprint(card)}")
    if card.sealing_hybrid:
        print(f"  ... where answers are sealed {SEALINGS[1]}: {fingerprint(card.sealing_as(SEALINGS[1]))}")
    if args.out is not None:
        print(f"\nThe card is in {args.out}: send it to the study's owner, and read the fingerprint to them.")
    return 0


def _reached(dns_name: str, listen: str) -> str:
    """Where others reach a node that listens somewhere."""
    return f"{dns_name}:{listen.rpartition(':')[2]}"


def _origin(dns_name: str, listen: str) -> str:
    """Where browsers reach a node that listens somewhere, as they write it."""
    if not listen:
        return ""
    port = listen.rpartition(":")[2]
    return f"https://{dns_name}" if port == "443" else f"https://{dns_name}:{port}"


REQUEST_FILE = "tls.csr"
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


def _make_node(folder: Path, party: Party, settings: str) -> dict[str, str]:
    """Make what is missing in `folder` (node.toml) and `folder`/keys; each file, and whether it was made or kept."""
    keys, file = folder / "keys", folder / "node.toml"
    if (keys / CARD_FILE).exists():
        _refuse_another(keys / CARD_FILE, party)
    keys.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = make_secrets(keys, role_of_name(party.name))
    made[keys / "tls.key"] = made[keys / REQUEST_FILE] = _request_certificate(keys, party.tls_name)
    made[keys / CARD_FILE] = not (keys / CARD_FILE).exists()
    (keys / CARD_FILE).write_text(card_text(own_card(keys, party)), encoding="utf-8")
    made[file] = not file.exists()
    if made[file]:
        file.write_text(settings, encoding="utf-8")
    return {str(path): "made" if fresh else "kept" for path, fresh in made.items()}


def _check(party: Party, listens: dict[str, str]) -> None:
    """Refuse choices that no node could be reached or known by, before anything is made."""
    if not _DNS_NAME.fullmatch(party.tls_name) or party.tls_name.rpartition(".")[2].isdigit():
        raise ConfigError(
            f"{party.tls_name!r} is not a DNS name: give the name by which others reach the node, in lower case, as "
            "r2.example.org (peers know a node by the name in its certificate, never by an IP address)"
        )
    if not party.organisation.strip():
        raise ConfigError("the organisation must not be empty: participants are shown who runs the node")
    check_letters(party.to_dict())
    for setting, address in listens.items():
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


def _refuse_another(path: Path, party: Party) -> None:
    """Refuse settings that belong to another node than the one in the folder."""
    card = load_party(path)
    if card.name != party.name or card.tls_name != party.tls_name:
        raise ConfigError(
            f"{path} is the card of {card.name} ({card.tls_name}), not of {party.name} ({party.tls_name}): give "
            "another folder"
        )

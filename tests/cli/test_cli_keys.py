"""`trimask keys`: certificates that say one name, files nobody else reads, settings the nodes accept."""

from __future__ import annotations

import datetime as dt
import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from trimask_core.basics.errors import ConfigError
from trimask_core.crypto.keys import SealingKey, SigningKey
from trimask_core.study import party
from trimask_server.local import keys
from trimask_server.local.keys import issue_certificate, load_authority, make_authority
from trimask_server.right.sealing_keys import load_ring
from trimask_server.runtime.context import load_keys
from trimask_server.settings.config import load_config

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
NODES = ("collector", "R1", "R2", "R3", "L1", "L2")


def check(certificate: bytes, authority: bytes, name: str, at: dt.datetime | None = None) -> None:
    """Raise unless a TLS client that trusts `authority` would take the certificate for `name`."""
    store = Store(x509.load_pem_x509_certificates(authority))
    builder = PolicyBuilder().store(store).time(at or dt.datetime.now(dt.UTC))
    builder.build_server_verifier(x509.DNSName(name)).verify(x509.load_pem_x509_certificate(certificate), [])


@pytest.mark.parametrize("name", [*NODES, "owner"])
def test_certificate_is_for_one_name_and_both_directions(made: Path, name: str) -> None:
    folder, authority = made / "keys" / name, (made / "keys" / "authority" / "ca.pem").read_bytes()
    pem = (folder / "tls.pem").read_bytes()
    check(pem, authority, f"{name.lower()}.trimask.local")
    with pytest.raises(VerificationError):
        check(pem, authority, "localhost")
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [x509.DNSName(f"{name.lower()}.trimask.local")]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc < dt.timedelta(days=398)
    assert (folder / "ca.pem").read_bytes() == authority


def test_certificate_of_another_authority_is_not_taken(made: Path) -> None:
    stranger = issue_certificate(make_authority(), "r1.trimask.local")
    with pytest.raises(VerificationError):
        check(stranger.certificate, (made / "keys" / "authority" / "ca.pem").read_bytes(), "r1.trimask.local")


def test_certificate_can_be_issued_expired() -> None:
    now = dt.datetime.now(dt.UTC)
    past, yesterday = now - dt.timedelta(days=9), now - dt.timedelta(days=1)
    authority = make_authority(past)
    expired = issue_certificate(authority, "r1.trimask.local", past, yesterday)
    check(expired.certificate, authority.certificate, "r1.trimask.local", at=now - dt.timedelta(days=3))
    with pytest.raises(VerificationError):
        check(expired.certificate, authority.certificate, "r1.trimask.local")


def test_secrets_are_for_their_owner_alone(made: Path) -> None:
    secrets = list((made / "keys").rglob("*.key"))
    assert (
        len(secrets) == 1 + 7 + 6 + 6 + 2 * 3 + 3 + 1
    )  # authority; tls of six nodes and the owner; their operators; identities; sealing and moments keys; who admits
    for path in secrets:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for path in (made / "keys").rglob("*.pem"):
        assert b"PRIVATE" not in path.read_bytes()


@pytest.mark.parametrize("name", NODES)
def test_node_accepts_its_files(made: Path, name: str) -> None:
    folder = made / "keys" / name
    role = party.role_of_name(name)
    config = load_config(folder / "node.toml", role)  # type: ignore[arg-type]
    loaded = load_keys(config.keys)
    card = party.load_party(folder / "node.json")
    assert config.name == card.name == name
    assert (config.listen, config.peer_listen) == (card.address, card.peer_address)
    assert (card.address == "") == (role == "left")
    assert loaded.identity.public == card.identity
    if role == "right":
        held = {item.key.kind: item.key.public for item in load_ring(config.keys).keys}
        assert held == {"classical": card.sealing, "hybrid": card.sealing_hybrid}
    else:
        assert (card.sealing, card.sealing_hybrid) == (b"", b"")
    assert config.data.parent == folder


def test_card_holds_no_secret(made: Path) -> None:
    folder = made / "keys" / "R1"
    text = (folder / "node.json").read_text()
    for name, kind in (("identity.key", SigningKey), ("sealing.key", SealingKey)):
        secret = party.read_secret(folder / name)
        assert secret.hex() not in text
        assert kind(secret).public != secret
    assert set(json.loads(text)) == {
        "name", "organisation", "address", "peer_address", "tls_name", "identity", "sealing", "https", "sealing_hybrid",
    }  # fmt: skip


def test_ports_do_not_collide() -> None:
    places = keys.node_places(5, 3, "127.0.0.1", 7400)
    used = [address for place in places for address in (place.listen, place.peer_listen) if address]
    assert len(set(used)) == len(used) == 2 * 6 + 3
    assert keys.node_places(2, 1, "::1", 7400)[0].listen == "[::1]:7400"


def test_command_makes_everything_and_never_overwrites(trimask: Run, tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    result = trimask("keys", folder, "--right", "2", "--left", "1", "--base-port", "9000")
    assert result.status == 0
    assert "127.0.0.1:9000" in result.out
    assert sorted(path.name for path in folder.iterdir()) == [
        "L1",
        "R1",
        "R2",
        "authority",
        "collector",
        "owner",
    ]
    before = (folder / "R1" / "identity.key").read_bytes()
    again = trimask("keys", folder)
    assert again.status == 2
    assert "already holds keys" in again.err
    assert (folder / "R1" / "identity.key").read_bytes() == before
    with pytest.raises(ConfigError, match="never overwritten"):
        keys.make_owner(folder / "owner", load_authority(folder / "authority"))


@pytest.mark.parametrize(
    "arguments", [["--right", "1"], ["--left", "-1"], ["--base-port", "65535"], ["--base-port", "0"]]
)
def test_command_refuses_bad_numbers(trimask: Run, tmp_path: Path, arguments: list[str]) -> None:
    result = trimask("keys", tmp_path / "keys", *arguments)
    assert result.status == 2
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize("name", ["R0", "r1", "collector2", "", "../R1"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not a node's name"):
        party.role_of_name(name)


def test_key_file_of_the_wrong_form_is_refused(tmp_path: Path) -> None:
    for text in ("xyz", "ab" * 31, ""):
        (tmp_path / "identity.key").write_text(text)
        with pytest.raises(ConfigError, match="64 hexadecimal digits"):
            party.read_secret(tmp_path / "identity.key")


def test_printed_forms_hide_private_keys() -> None:
    authority = make_authority()
    issued = issue_certificate(authority, "r1.trimask.local")
    assert "PRIVATE" not in repr(authority)
    assert "PRIVATE" not in repr(issued)

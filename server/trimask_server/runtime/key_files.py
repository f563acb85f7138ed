"""Checks of a node's key folder: missing files, file permissions, and when the certificate expires.

The same at each start, where what is wrong stops it and what is weak is in the log, and in `trimask node doctor`. A
check is one line: whether something is in order, and what to do if not.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from trimask_core.basics.errors import ConfigError
from trimask_core.moments.report import FILE_NAME as MOMENTS_KEY
from trimask_core.study.party import load_party
from trimask_server.runtime.tls import (
    HTTPS_CERTIFICATE,
    HTTPS_KEY,
    OPERATOR_CERTIFICATE,
    WARN_DAYS,
    Certificates,
    TlsMaterial,
    dns_names,
    read_material,
)
from trimask_server.settings.config import NodeRole
from trimask_server.store.data_keys import FILE_NAME as STORAGE_KEYS

Level = Literal["ok", "warning", "wrong"]


@dataclass(frozen=True)
class Finding:
    """`about` is what was looked at, `said` what was found, `fix` what to do; nothing where it is in order."""

    about: str
    level: Level
    said: str
    fix: str = ""

    @property
    def sentence(self) -> str:
        """For a log."""
        return f"{self.about}: {self.said}" + (f"; {self.fix}" if self.fix else "")

    def to_dict(self) -> dict[str, str]:
        """JSON-ready."""
        return asdict(self)


def fine(about: str, said: str) -> Finding:
    """In order."""
    return Finding(about, "ok", said)


def weak(about: str, said: str, fix: str) -> Finding:
    """The node runs, but this should be fixed soon."""
    return Finding(about, "warning", said, fix)


def bad(about: str, said: str, fix: str) -> Finding:
    """The node cannot run, or not correctly, until this is fixed."""
    return Finding(about, "wrong", said, fix)


_SECRETS = (
    "identity.key", "sealing.key", "sealing-hybrid.key", "sealing.keys", MOMENTS_KEY, STORAGE_KEYS, "tls.key", HTTPS_KEY,
    "operator/tls.key",
)  # fmt: skip


def look_at_keys(folder: Path, now_ms: int) -> list[str]:
    """What is weak, in sentences; `ConfigError`, with file and reason, if a node could not serve with it."""
    found = folder_findings(folder) or [
        *mode_findings(folder),
        *certificate_findings(folder, now_ms),
        *name_findings(folder),
        *operator_findings(folder),
        *https_findings(folder, now_ms),
    ]
    for finding in found:
        if finding.level == "wrong":
            raise ConfigError(finding.sentence)
    return [finding.sentence for finding in found if finding.level == "warning"]


def folder_findings(folder: Path) -> list[Finding]:
    """Nothing, or that the folder is not there or not this user's: then nothing in it can be looked at."""
    if not folder.is_dir():
        return [
            bad(str(folder), "is no folder", "`keys` in node.toml must name it; `trimask node init` makes it")
        ]
    if os.access(folder, os.R_OK | os.X_OK):
        return []
    owner = folder.stat().st_uid
    said = f"belongs to uid {owner} and cannot be entered by uid {os.getuid()}"
    return [bad(str(folder), said, f"chown it to the node's user, or run this as uid {owner}")]


def file_findings(folder: Path, role: NodeRole, *, printed: bool = False) -> list[Finding]:
    """What a node of a role must have, and may miss; with `printed` a command has the keys of its store."""
    needed = ["identity.key", "tls.pem", "tls.key", "ca.pem"]
    if role == "right" and not (folder / "sealing.keys").exists():
        needed.append("sealing.key")
    missing = [name for name in needed if not (folder / name).exists()]
    made, asked = "`trimask node init` makes it", "ask your authority for it"
    found = [
        bad(str(folder / name), "is missing", asked if name in ("tls.pem", "ca.pem") else made)
        for name in missing
    ]
    if role == "right" and not (folder / MOMENTS_KEY).exists():
        fix = f"`trimask node init` makes it, or `openssl rand -hex 32 > {folder / MOMENTS_KEY}`"
        found.append(
            weak(str(folder / MOMENTS_KEY), "is missing: no study of the moments suite can be approved", fix)
        )
    if not (folder / STORAGE_KEYS).exists() and not printed:
        found.append(
            weak(
                str(folder / STORAGE_KEYS),
                "is missing; the node makes it at its first start",
                "back it up then",
            )
            if os.access(folder, os.W_OK)
            else bad(
                str(folder / STORAGE_KEYS),
                "is missing, and the folder cannot be written",
                "`trimask node init` makes what is missing, as the node's user",
            )
        )
    if not (folder / OPERATOR_CERTIFICATE).exists():
        fix = f"`trimask keys {folder} --operator`, then restart the node"
        found.append(weak(str(folder / OPERATOR_CERTIFICATE), "is missing: nobody can operate the node", fix))
    who = "a collector" if role == "collector" else f"a {role} provider"
    return found or [fine("files", f"{folder} has everything {who} needs")]


def mode_findings(folder: Path) -> list[Finding]:
    """Secrets that others than their owner may read, and those this user may not."""
    found, owners = [], set()
    for name in _SECRETS:
        path = folder / name
        try:
            status = path.stat()
        except OSError:
            continue
        owners.add(status.st_uid)
        mode = stat.S_IMODE(status.st_mode)
        if mode & 0o077:
            found.append(weak(str(path), f"has mode {mode:04o}: others may read it", f"chmod 0600 {path}"))
        if not os.access(path, os.R_OK):
            said = f"belongs to uid {status.st_uid} and cannot be read by uid {os.getuid()}"
            found.append(
                bad(str(path), said, f"chown it to the node's user, or run this as uid {status.st_uid}")
            )
    if len(owners) > 1:
        said = f"secrets belong to several users (uid {', '.join(map(str, sorted(owners)))})"
        found.append(weak(str(folder), said, "chown them all to the user that runs the node"))
    return found or [fine("modes", "every secret is its owner's alone")]


def certificate_findings(folder: Path, now_ms: int) -> list[Finding]:
    """Whether the TLS files fit together, and until when."""
    try:
        material = read_material(folder)
        material.check_fit()
    except ConfigError as error:
        return [
            bad(f"TLS files in {folder}", str(error), "put back files that fit together, and start again")
        ]
    certificates = Certificates(material)
    path = str(folder / "tls.pem")
    days = certificates.days_left(now_ms)
    renew = "renew it; a running node takes the new file over by itself"
    found = []
    if days <= 0:
        # A node starts all the same, so that a new one can be put in its place; it is not ready until then.
        found.append(weak(path, f"expired {-days:.1f} days ago: nobody can connect", renew))
    elif days < WARN_DAYS:
        found.append(weak(path, f"expires in {days:.1f} days", renew))
    if certificates.begins_ms > now_ms:
        said = f"is not valid yet, for another {(certificates.begins_ms - now_ms) / 3_600_000:.1f} hours"
        found.append(weak(path, said, "look at this machine's clock"))
    if not _issued_by(material):
        said = "comes from no authority in ca.pem"
        found.append(
            weak(path, said, "peers with the same ca.pem will refuse it: agree on one ca.pem with them")
        )
    return found or [fine(path, f"fits tls.key, comes from ca.pem, and expires in {days:.0f} days")]


def name_findings(folder: Path) -> list[Finding]:
    """Whether the certificate carries the name by which studies know the node."""
    with contextlib.suppress(ConfigError, OSError):
        name = load_party(folder / "node.json").tls_name
        if name not in dns_names((folder / "tls.pem").read_bytes()):
            said = f"does not carry {name}, the name on the node's card: nobody of a study will talk to it"
            return [weak(str(folder / "tls.pem"), said, f"have a certificate made for {name}")]
    return []


def operator_findings(folder: Path) -> list[Finding]:
    """Whether the operator's certificate is one, and fits its key."""
    path = folder / OPERATOR_CERTIFICATE
    if not path.exists():
        return []
    try:
        TlsMaterial(path.read_bytes(), path.with_name("tls.key").read_bytes(), path.read_bytes()).check_fit()
    except (ConfigError, OSError):
        fix = f"remove both and make them again: `trimask keys {folder} --operator`; then restart the node"
        return [weak(str(path), "does not fit the tls.key beside it: nobody can operate the node", fix)]
    return []


def https_findings(folder: Path, now_ms: int) -> list[Finding]:
    """Until when the certificate for browsers is good, where it is another; that it fits is found when the port opens."""
    path = folder / HTTPS_CERTIFICATE
    if not path.exists():
        return []
    try:
        certificates = Certificates(TlsMaterial(path.read_bytes(), b"", b""))
        days = certificates.days_left(now_ms)
    except (OSError, ConfigError):
        fix = "put back a certificate in PEM form, or remove it"
        return [bad(str(path), "is not a certificate in PEM form", fix)]
    if days < WARN_DAYS:
        said = (
            f"expired {-days:.1f} days ago: no browser can connect"
            if days <= 0
            else f"expires in {days:.1f} days"
        )
        return [weak(str(path), said, "renew it; a running node takes the new file over by itself")]
    return [fine(str(path), f"is for browsers, and expires in {days:.0f} days")]


def _issued_by(material: TlsMaterial) -> bool:
    """Whether the last certificate of the chain comes from an authority in ca.pem."""
    chain = x509.load_pem_x509_certificates(material.certificate)
    for root in x509.load_pem_x509_certificates(material.roots):
        for link in chain:
            try:
                link.verify_directly_issued_by(root)
            except (ValueError, TypeError, InvalidSignature):
                continue
            return True
    return False

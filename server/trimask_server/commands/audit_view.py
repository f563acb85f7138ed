"""The audit log on a screen, in a file, and checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.text import Text

from trimask_core.basics.errors import ConfigError, VerificationError
from trimask_core.study.party import load_party
from trimask_server.runtime.audit import AuditEntry, AuditHead, ChainReport
from trimask_terminal.options import shown_time

_LOUD = {"study_refused", "requests_refused", "log_cut_short", "keys_changed", "peer_log_rewritten"}


def line(entry: AuditEntry) -> Text:
    """One entry in a line."""
    details = json.loads(entry.details)
    words = " ".join(f"{key}={_word(value)}" for key, value in details.items())
    style = "yellow" if entry.kind in _LOUD else ""
    return Text.assemble(
        (f"{entry.sequence:>6}  {shown_time(entry.time_ms)}  ", "dim"),
        (f"{entry.kind:<20}", style),
        f"  {words}",
    )


def _word(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{count}" for key, count in value.items())
    if isinstance(value, list):
        return ",".join(map(str, value))
    text = str(value)
    return text[:12] if len(text) >= 32 and all(letter in "0123456789abcdef" for letter in text) else text


def read_log(path: Path) -> Iterator[AuditEntry]:
    """An exported log, an entry a line."""
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if text.strip():
                try:
                    yield AuditEntry.from_json(text)
                except VerificationError as error:
                    raise ConfigError(f"{path}, line {number}: {error}") from None


def read_heads(path: Path, identity: bytes) -> list[AuditHead]:
    """Heads somebody kept: a head's own file, or what `trimask study status --json` printed; only this node's count."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data["audit_heads"].values() if "audit_heads" in data else [data]
        heads = [AuditHead.from_json(json.dumps(item)) for item in found]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} has no audit head: {error}") from None
    return [head for head in heads if _is_of(head, identity)]


def _is_of(head: AuditHead, identity: bytes) -> bool:
    try:
        head.verify(identity)
    except VerificationError:
        return False
    return True


def read_identity(text: str) -> bytes:
    """A public identity: 64 hexadecimal digits, or a node's card (node.json)."""
    if Path(text).is_file():
        return load_party(Path(text)).identity
    try:
        identity = bytes.fromhex(text)
    except ValueError:
        identity = b""
    if len(identity) != 32:
        raise ConfigError("--identity must be 64 hexadecimal digits, or a node's card (node.json)")
    return identity


def report_words(report: ChainReport, heads: Iterable[AuditHead]) -> str:
    """The result in a sentence or two."""
    if not report.whole:
        return f"BROKEN at entry {report.broken_at}: {report.why}. {report.entries:,} entries before it are as they were."
    known = [head.sequence for head in heads]
    against = (
        f" It reaches the kept head {max(known)}." if known else " No kept head to compare its end with."
    )
    return f"Whole: {report.entries:,} entries, every hash and signature holds; head {report.last.hash.hex()}.{against}"

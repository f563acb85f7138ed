"""The owner's calls about researchers' tokens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from trimask_cli.owner import owner_channel
from trimask_core.basics.clock import SystemClock
from trimask_core.basics.errors import ConfigError
from trimask_core.study.definition import Study
from trimask_proto.v1 import admission_pb2
from trimask_proto.v1.admission_pb2_grpc import AdmissionOwnerServiceStub
from trimask_terminal.options import shown_time

_SECONDS = 30.0
_DIGITS = 4


def new(
    study: Study, owner: Path, name: str, scopes: list[str], expires_ms: int, out: Path | None
) -> tuple[str, dict[str, Any]]:
    """A new token and how it is listed; written to `out`, for its owner's eyes, if given."""
    descriptor = None
    if out is not None:  # before the token is made: it is shown once
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(f"{out} exists already; give another --out") from None
    request = admission_pb2.CreateTokenRequest(
        study_id=study.id, name=name, scopes=scopes, expire_time_ms=expires_ms
    )
    try:
        with owner_channel(study, owner) as channel:
            made = AdmissionOwnerServiceStub(channel).CreateToken(request, timeout=_SECONDS)
    except BaseException:
        if out is not None:
            out.unlink()
        raise
    if descriptor is not None:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(made.token + "\n")
    return made.token, _entry(made.summary)


def listed(study: Study, owner: Path) -> list[dict[str, Any]]:
    """A study's tokens."""
    request = admission_pb2.ListTokensRequest(study_id=study.id)
    with owner_channel(study, owner) as channel:
        found = AdmissionOwnerServiceStub(channel).ListTokens(request, timeout=_SECONDS)
    return [_entry(item) for item in found.tokens]


def revoke(study: Study, owner: Path, token_id: str) -> str:
    """End a token, named by its id or by enough of its first digits; its whole id."""
    found = [
        item["id"]
        for item in listed(study, owner)
        if len(token_id) >= _DIGITS and item["id"].startswith(token_id)
    ]
    if len(found) > 1:
        raise ConfigError(f"{len(found)} tokens begin with {token_id}; give more of its digits")
    token_id = found[0] if found else token_id
    request = admission_pb2.RevokeTokenRequest(study_id=study.id, token_id=token_id)
    with owner_channel(study, owner) as channel:
        AdmissionOwnerServiceStub(channel).RevokeToken(request, timeout=_SECONDS)
    return token_id


def render(entries: list[dict[str, Any]]) -> Table | Text:
    """Tokens as a table."""
    if not entries:
        return Text("No tokens yet; `trimask study token new` makes one.")
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "for", "scopes", "made", "until", "state"):
        table.add_column(heading, header_style="dim", no_wrap=heading == "id")  # an id is copied whole
    for item in entries:
        table.add_row(
            item["id"],
            item["name"],
            ", ".join(item["scopes"]),
            shown_time(item["created_ms"]),
            shown_time(item["expires_ms"]),
            Text(item["state"], style="green" if item["state"] == "valid" else "red"),
        )
    return table


def _entry(item: admission_pb2.TokenSummary) -> dict[str, Any]:
    over = item.expire_time_ms <= SystemClock().now_ms()
    return {
        "id": item.token_id,
        "name": item.name,
        "scopes": list(item.scopes),
        "created_ms": item.create_time_ms,
        "expires_ms": item.expire_time_ms,
        "state": "revoked" if item.revoke_time_ms else "expired" if over else "valid",
    }

"""Institutions a device knows: a directory that somebody keeps and signs.

A study names its parties and carries their keys, and every one of them has signed it; but the maker of a study can make up
institutions as well, keys and all. A directory pins who is who: the key by which an institution signs studies, whatever its
role in them. A device has the directories its app ships and those its person adds, and shows every other institution
plainly as not known. The keeper's key in it says who vouches for a directory; a person compares that key before adding it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import canonical_json, check_letters, read_json
from trimask_core.basics.errors import ConfigError, StudyError, VerificationError
from trimask_core.crypto.keys import SigningKey, verify
from trimask_core.study.definition import Study

FORMAT = "trimask-institutions/1"


@dataclass(frozen=True)
class Institution:
    """A name, the Ed25519 key it signs studies with, and how to reach it."""

    name: str
    identity: bytes
    contact: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        texts = (self.name, self.contact, self.url)
        if (
            not all(isinstance(text, str) for text in texts)
            or not self.name.strip()
            or len(self.identity) != 32
        ):
            raise ConfigError("an institution has a name and a key of 32 bytes; contact and url are text")
        _check_letters(self.to_dict())

    def to_dict(self) -> dict[str, str]:
        """A JSON-ready form."""
        return {"name": self.name, "identity": self.identity.hex(), "contact": self.contact, "url": self.url}


def _check_letters(data: Mapping[str, str]) -> None:
    try:
        check_letters(data)
    except StudyError as error:
        raise ConfigError(f"an institution's {error}") from None


@dataclass(frozen=True)
class Directory:
    """What one keeper says of institutions, signed."""

    keeper: str
    keeper_key: bytes
    institutions: tuple[Institution, ...] = ()
    signature: bytes = b""

    def __post_init__(self) -> None:
        _check_letters({"name": self.keeper})
        identities = [item.identity for item in self.institutions]
        if len(set(identities)) != len(identities):
            raise ConfigError("a directory names every key once")

    def signed_with(self, key: SigningKey) -> Directory:
        """The same, signed by its keeper."""
        mine = replace(self, keeper_key=key.public, signature=b"")
        return replace(mine, signature=key.sign("institutions", mine._signed_part()))

    def verify(self, keeper_key: bytes | None = None) -> None:
        """Raise `VerificationError` unless its keeper signed it: the one with this key, if it is given."""
        if keeper_key is not None and keeper_key != self.keeper_key:
            raise VerificationError("this directory of institutions is of another keeper")
        verify(
            self.keeper_key,
            "institutions",
            self._signed_part(),
            self.signature,
            "the directory of institutions",
        )

    def name_of(self, identity: bytes) -> str | None:
        """Whose key this is."""
        return next((item.name for item in self.institutions if item.identity == identity), None)

    def _signed_part(self) -> bytes:
        return canonical_json({key: value for key, value in self._to_dict().items() if key != "signature"})

    def _to_dict(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "keeper": self.keeper,
            "keeper_key": self.keeper_key.hex(),
            "institutions": [item.to_dict() for item in self.institutions],
            "signature": self.signature.hex(),
        }

    def to_json(self) -> str:
        """As it is kept and handed on."""
        return json.dumps(self._to_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Directory:
        """Read what `to_json` wrote, and verify it."""
        try:
            data: Mapping[str, Any] = read_json(text)
            if data["format"] != FORMAT:
                raise ConfigError(f"this is not a directory of institutions of the format {FORMAT}")
            found = cls(
                str(data["keeper"]),
                bytes.fromhex(data["keeper_key"]),
                tuple(
                    Institution(item["name"], bytes.fromhex(item["identity"]), item["contact"], item["url"])
                    for item in data["institutions"]
                ),
                bytes.fromhex(data["signature"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigError(f"this is not a directory of institutions: {error}") from None
        found.verify()
        return found


@dataclass(frozen=True)
class Standing:
    """A party of a study: what the study calls it, and what a directory this device has calls it (None: not known)."""

    role: str
    organisation: str
    known_as: str | None
    keeper: str = ""


def known_parties(study: Study, directories: Iterable[Directory]) -> tuple[Standing, ...]:
    """Every party, and whether its key is in one of the directories."""
    found = []
    for role, party in study.parties.items():
        names = ((book.name_of(party.identity), book.keeper) for book in directories)
        known, keeper = next(((name, keeper) for name, keeper in names if name is not None), (None, ""))
        found.append(Standing(role, party.organisation or role, known, keeper))
    return tuple(found)


def require_known(study: Study, directories: Iterable[Directory]) -> None:
    """Raise `StudyError` if a party is in none of the directories."""
    unknown = [item for item in known_parties(study, tuple(directories)) if item.known_as is None]
    if unknown:
        names = ", ".join(f"{item.organisation} ({item.role})" for item in unknown)
        raise StudyError(
            f"this device takes part only with institutions it knows, and does not know {names}. Take no part, or add a "
            "directory that names them"
        )


def load_directories(folder: Path) -> tuple[Directory, ...]:
    """Every directory in a folder, verified; a damaged one is refused by its name."""
    found = []
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            found.append(Directory.from_json(path.read_text(encoding="utf-8")))
        except (ConfigError, VerificationError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: {error}") from None
    return tuple(found)

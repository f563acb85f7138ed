"""Study files: the definition that comes with the package, parties' cards, signed studies on disk, drafts as TOML.

The blood-pressure study for the moments suite is the bundled definition with its differences; there is one model that is
fitted by default.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimask_core.basics.errors import ConfigError, StudyError
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.definition import SuiteName
from trimask_core.study.party import (
    ADMISSION_KEY,
    Party,
    admission_key,
    load_party,
    read_secret,
    role_of_name,
)
from trimask_core.study.schema import Schema
from trimask_core.study.signed import SignedStudy

if TYPE_CHECKING:
    from trimask.simulation import Parties

_PRIVACY = """[privacy]
# Rows of a box of these questions have norm sqrt(7) at most, but people's are shorter: devices shrink the few that are
# longer than row_norm towards the centres, and prove it. The noise goes with row_norm^2; the release says about how many
# rows were shrunk. Centres, scales and row_norm come from what is known already, never from this study's answers.
# What shrinking takes is corrected by people asked before (`trimask study new --pilot FILE.csv`); without them a release
# with row_norm has ranges and no intervals, so without a pilot leave row_norm out.
# With one right provider honest, epsilon = 4 gives sigma = 8.17 on sums over 2,048 people.
epsilon = 4.0
delta = 1e-6
row_norm = 2.2
honest_providers = 1    # of the right providers; the release is private as long as so many add their noise as agreed

"""
_COLLECTION = """[collection]
suite = "moments"       # two right providers at least, no left ones; no answer is seen unless all of them collude
release_rows = 2048     # people published together, at least: all of them when the study closes

"""
_GRIDS = {
    "bmi": "step = 0.1\ncentre = 26         # about the mean one expects\nscale = 13",
    "salt": "step = 0.1\ncentre = 9\nscale = 8",
}


def for_moments(text: str) -> str:
    """The definition with the sections and grids of the moments suite in the place of those of the rows suite."""
    text = re.sub(r"(?ms)^\[privacy\]\n.*?(?=^\[)", lambda _: _PRIVACY, text, count=1)
    text = re.sub(r"(?ms)^\[collection\]\n.*?(?=^\[)", lambda _: _COLLECTION, text, count=1)
    for name, grid in _GRIDS.items():
        text = re.sub(rf'(?m)(^name = "{name}"\n(?:^\w.*\n)*?^maximum = .*\n)', rf"\1{grid}\n", text, count=1)
    return text


_LEAST_PEOPLE = 32  # whom the columns of a row fit in


def bundled_definition(suite: SuiteName = "rows", people: int | None = None) -> str:
    """The blood-pressure study's definition, as TOML: the same questions in either suite, by default for 2,048 people."""
    text = (files("trimask_cli") / "data" / "blood-pressure.toml").read_text(encoding="utf-8")
    text = text if suite == "rows" else for_moments(text)
    if people is None:
        return text
    if people < _LEAST_PEOPLE:
        raise ConfigError(f"--people must be {_LEAST_PEOPLE} at least")
    # What the comments say of 2,048 people is not so of others.
    text = re.sub(r"(?m)^\[privacy\]\n(?:^#.*\n)+", "[privacy]\n", text)
    # In one block the collector, who sees it, learns no more than the public; of many people it would be slow.
    block = f"block_rows = {min(1024, people)}        # rows masked together"
    text = re.sub(r"(?m)^block_rows = .*$", block, text)
    return re.sub(r"(?m)^(release_rows = )\d+", rf"\g<1>{people}", text)


def gather_parties(cards: Iterable[Path]) -> Parties:
    """Read nodes' cards; exactly one collector, and R1.., L1.. without gaps or doubles."""
    named: dict[str, Party] = {}
    for path in cards:
        party = load_party(path)
        role_of_name(party.name)
        if party.name in named:
            raise ConfigError(f"{path}: there is another card of {party.name}")
        named[party.name] = party
    if "collector" not in named:
        raise ConfigError("no card of the collector; give --keys DIR, or --party FILE for every node")
    from trimask.simulation import Parties  # here: most commands need nothing of it

    return Parties(named["collector"], _numbered(named, "R"), _numbered(named, "L"))


def party_cards(keys: Path | None, cards: Iterable[Path] | None) -> Parties | None:
    """The parties of cards given one by one and of a folder with */node.json; None if neither has any."""
    found = [*(cards or []), *(sorted(keys.glob("*/node.json")) if keys is not None else [])]
    if keys is not None and not found:
        raise ConfigError(
            f"{keys} has no folders of nodes, with node.json in each; `trimask keys {keys}` makes some to try"
        )
    return gather_parties(found) if found else None


def _numbered(named: dict[str, Party], letter: str) -> tuple[Party, ...]:
    count = sum(name.startswith(letter) for name in named)
    wanted = [f"{letter}{k}" for k in range(1, count + 1)]
    for name in wanted:
        if name not in named:
            raise ConfigError(f"no card of {name}, though there are {count} of {letter}1, {letter}2, ...")
    return tuple(named[name] for name in wanted)


def read_signed(path: Path) -> SignedStudy:
    """A study with the approvals it has so far."""
    try:
        return SignedStudy.from_json(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise StudyError(f"{path} is not a signed study") from None
    except StudyError as error:
        if path.suffix != ".toml":
            raise StudyError(f"{path}: {error}") from None
        raise StudyError(
            f"{path} is a study's definition; this needs the study that `trimask study new` makes of it, a .json file"
        ) from None


def owner_public_key(owner: Path | None, *, make: bool) -> bytes:
    """The public half of the owner's key for invitations and orders; empty without a folder. `make`: if it has none yet."""
    if owner is None or not owner.is_dir():
        return b""
    path = owner / ADMISSION_KEY
    if make:
        obtain_key(path)
    return admission_key(owner).public if path.exists() else b""


def obtain_key(path: Path) -> SigningKey:
    """The signing key in a file; made if there is none."""
    if not path.exists():
        write_seed(path, SigningKey.generate().secret_bytes())
    return SigningKey(read_secret(path))


def seed_file(study: Path) -> Path:
    """Where the owner keeps the seed of B_0, beside the study that goes to the providers."""
    return study.with_name(f"{study.stem}.seed")


def device_file(study: Path) -> Path:
    """The copy for devices: the study with the seed of B_0."""
    return study.with_name(f"{study.stem}.device.json")


def write_seed(path: Path, mask_seed: bytes) -> None:
    """Write 32 secret bytes, a seed or a key, to a new file that only its owner can read."""
    write_secret(path, mask_seed.hex() + "\n")


def write_secret(path: Path, content: str | bytes) -> None:
    """Write a new file that only its owner can read."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists already; it is never written over") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_signed(path: Path, signed: SignedStudy, *, replace: bool) -> None:
    """Write a study whole or not at all; a file that exists is replaced only where that is meant."""
    if path.exists() and not replace:
        raise ConfigError(f"{path} exists already; give another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(signed.to_json() + "\n", encoding="utf-8")
    draft.replace(path)


def default_formula(schema: Schema) -> str:
    """The first numeric attribute on all the others."""
    attributes = schema.attributes
    numeric = [attribute.name for attribute in attributes if attribute.kind != "categorical"]
    if not numeric or len(attributes) < 2:
        raise ConfigError("this study has no numeric attribute to explain by another; give --formula")
    others = [
        f"C({attribute.name})" if attribute.kind == "categorical" else attribute.name
        for attribute in attributes
        if attribute.name != numeric[0]
    ]
    return f"{numeric[0]} ~ {' + '.join(others)}"


def toml_line(key: str, value: Any) -> str:
    """`key = value`."""
    return f"{key} = {toml_value(value)}"


def toml_value(value: Any) -> str:
    """TOML for what a definition has: a JSON string is a TOML string but for DEL, which has to be escaped."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {toml_value(item)}" for key, item in value.items()) + " }"
    return str(value)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else toml_value(key)

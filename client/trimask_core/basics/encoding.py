"""Bytes and objects as text, written one way and read strictly: base64, canonical JSON, and characters that mislead.

The canonical form of JSON is what is hashed. JSON from others has no NaN, no infinity, and no number that turns into one.

Whoever writes a study writes what operators read before they approve it and people before they answer. A terminal obeys an
escape sequence in a title: it can erase the line that says what is not promised, and write another. So a study's texts have
no control characters and none that reorder a line, and what other nodes say is shown without.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from trimask_core.basics.errors import StudyError


def encode_bytes(value: bytes) -> str:
    """Bytes as base64 text."""
    return base64.b64encode(value).decode()


def decode_bytes(text: str) -> bytes:
    """Base64 text as bytes; `ValueError` if it is anything else."""
    return base64.b64decode(text, validate=True)


def canonical_json(data: Mapping[str, Any]) -> bytes:
    """The canonical JSON of a study, which is hashed."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def read_json(text: str | bytes) -> Any:
    """What a document says; ValueError if it is not JSON, or has a number that is not finite."""
    return json.loads(text, parse_float=_finite, parse_constant=_refuse)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        _refuse(text)
    return value


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text[:24]} is not a finite number")


# C0 and C1 but for tab and line feed; line and paragraph separators; embeddings, overrides and isolates.
_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
# One line each: a second one could look like a line of the program that shows it.
_ONE_LINE = frozenset(
    ["title", "contact", "name", "organisation", "address", "peer_address", "tls_name", "unit"]
)
_NOT_READ = frozenset(["tls_roots"])  # by programs alone, which check it


def check_letters(data: Mapping[str, Any]) -> None:
    """Refuse a study, as `to_dict` writes it, with a text that shows as something else than it says."""
    for name, where, text in _texts(data, ""):
        found = _HIDDEN.search(text)
        if found is None and name in _ONE_LINE:
            found = re.search("[\t\n]", text)
        if found is not None:
            raise StudyError(
                f"{where} has U+{ord(found[0]):04X}, a character that changes what is read; take it out"
            )


def shown(text: str) -> str:
    """A text of another party, to be shown: what changes how it is read is replaced, so that it is seen."""
    return _HIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _texts(value: Any, where: str, name: str = "") -> Iterator[tuple[str, str, str]]:
    """(field, path, text) of every text; keys of objects too, which are languages and names of columns."""
    if isinstance(value, str):
        yield name, where, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if key in _NOT_READ and not where:
                continue
            yield "name", where or "study", str(key)
            yield from _texts(item, f"{where}.{key}" if where else str(key), str(key))
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from _texts(item, f"{where}[{place}]", name)

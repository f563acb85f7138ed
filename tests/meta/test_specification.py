"""docs/specification.md is whole: every vector, every separation string and every signature a device meets is in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "specification.md").read_text(encoding="utf-8")
VECTORS = ROOT / "tests" / "vectors"
DEVICE = [ROOT / "client" / "trimask_core", ROOT / "client" / "trimask_client"]
# Said between nodes, or to researchers: a device neither makes nor reads them.
NOT_A_DEVICES = {
    "trimask/v1/accepted\0",
    "trimask/v1/moments challenge key",
    "trimask/v1/moments contribution",
    "trimask/v1/release set\0",
    "trimask/v1/totals asked\0",
    "trimask/v1/totals\0",
}
LABELS = {
    "component",
    "haar frame",
    "secure normals",
    "tag key",
    "tag offsets",
    "spare vector",
    "moments share",
}


def constants(folders: list[Path], wanted: type) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, wanted):
                    value = node.value
                    yield path, value.decode("latin-1") if isinstance(value, bytes) else str(value)


def test_every_vector_is_named_where_its_step_is_specified() -> None:
    there = {path.name for path in VECTORS.glob("*.json")} - {"published-values.json"}
    named = set(re.findall(r"`((?:core|device|moments|schema)-[a-z-]+\.json)`", TEXT))
    assert named == there
    assert there <= set(re.findall(r"`([a-z-]+\.json)`", (VECTORS / "README.md").read_text(encoding="utf-8")))


def test_every_separation_string_of_a_device_is_specified() -> None:
    used = {text for _, text in constants(DEVICE, bytes) if text.startswith("trimask/v1/")}
    used.discard("trimask/v1/")
    assert used >= NOT_A_DEVICES
    for text in used - NOT_A_DEVICES:
        assert f'"{text}"'.replace("\0", "\\0") in TEXT, text
    quoted = {text.replace("\\0", "\0") for text in re.findall(r'"(trimask/v1/[a-z][^"]*)"', TEXT)}
    assert quoted == used - NOT_A_DEVICES


def test_every_label_of_a_stream_is_specified() -> None:
    used = {text for _, text in constants(DEVICE, bytes)}
    assert used >= LABELS
    for label in LABELS:
        assert f"`{label}`" in TEXT or f'"{label}"' in TEXT, label


def test_every_context_in_the_table_is_signed_or_verified_by_that_name() -> None:
    table = TEXT.partition("| context | signed by |")[2].partition("\n\n")[0]
    contexts = set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE))
    assert contexts >= {"study-approval", "sealing-key", "receipt", "withdrawal", "invited", "admission"}
    used = {text for _, text in constants([ROOT / "client", ROOT / "server" / "trimask_server"], str)}
    assert contexts <= used


def test_sections_are_numbered_and_those_with_bytes_name_vectors() -> None:
    sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
    assert [section.split(".")[0] for section in sections] == [str(n) for n in range(1, len(sections) + 1)]
    without = [section.splitlines()[0] for section in sections if "\nVectors: " not in section]
    assert without == ["9. Calls", "12. What a person must be shown"]

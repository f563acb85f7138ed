"""Protos: the committed stubs are current, and every element keeps the style (AIP, buf STANDARD)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

ROOT = Path(__file__).parents[2]
PROTOS = ROOT / "protos"
STUBS = ROOT / "client" / "trimask_proto" / "v1"
SNAKE, PASCAL = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*"), re.compile(r"([A-Z][a-z0-9]*)+")

# Field numbers in descriptor.proto, which is how source info names a place.
MESSAGE, ENUM, SERVICE, FIELD, NESTED, NESTED_ENUM, VALUE, METHOD = 4, 5, 6, 2, 3, 4, 2, 2


class Element(NamedTuple):
    """One thing a proto declares: its kind, its name, its comment."""

    kind: str
    name: str
    comment: str


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[FileDescriptorProto]:
    """Every proto, with its comments."""
    out = tmp_path_factory.mktemp("protos") / "all.pb"
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", "--include_source_info", f"-I{PROTOS}"]
    subprocess.run([*command, f"--descriptor_set_out={out}", *sources], check=True)
    files = list(FileDescriptorSet.FromString(out.read_bytes()).file)
    assert len(files) == len(sources) >= 9
    return files


def elements(file: FileDescriptorProto) -> Iterator[Element]:
    comments = {tuple(at.path): at.leading_comments.strip() for at in file.source_code_info.location}

    def message(item: object, path: tuple[int, ...]) -> Iterator[Element]:
        yield Element("message", item.name, comments.get(path, ""))  # type: ignore[attr-defined]
        for i, part in enumerate(item.field):  # type: ignore[attr-defined]
            yield Element("field", part.name, comments.get((*path, FIELD, i), ""))
        for i, inner in enumerate(item.nested_type):  # type: ignore[attr-defined]
            yield from message(inner, (*path, NESTED, i))
        for i, inner in enumerate(item.enum_type):  # type: ignore[attr-defined]
            yield from enum(inner, (*path, NESTED_ENUM, i))

    def enum(item: object, path: tuple[int, ...]) -> Iterator[Element]:
        yield Element("enum", item.name, comments.get(path, ""))  # type: ignore[attr-defined]
        for i, value in enumerate(item.value):  # type: ignore[attr-defined]
            yield Element("value", value.name, comments.get((*path, VALUE, i), ""))

    for i, item in enumerate(file.message_type):
        yield from message(item, (MESSAGE, i))
    for i, kind in enumerate(file.enum_type):
        yield from enum(kind, (ENUM, i))
    for i, service in enumerate(file.service):
        yield Element("service", service.name, comments.get((SERVICE, i), ""))
        for j, method in enumerate(service.method):
            yield Element("rpc", method.name, comments.get((SERVICE, i, METHOD, j), ""))


def test_the_committed_stubs_are_current(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(PROTOS / "generate.py"), "--to", str(tmp_path)], check=True)
    fresh = {path.name: path.read_text() for path in (tmp_path / "trimask_proto" / "v1").iterdir()}
    committed = {
        path.name: path.read_text()
        for path in STUBS.iterdir()
        if path.suffix in (".py", ".pyi") and "_pb2" in path.name
    }
    assert sorted(fresh) == sorted(committed)
    assert [name for name in fresh if fresh[name] != committed[name]] == [], "run `make protos`"


def test_the_generator_needs_no_path_of_ours(tmp_path: Path) -> None:
    """The plugins are found beside the interpreter, so that `make protos` works outside an activated environment."""
    command = [sys.executable, str(PROTOS / "generate.py"), "--to", str(tmp_path)]
    subprocess.run(command, check=True, env={"PATH": "/nowhere"})
    assert (tmp_path / "trimask_proto" / "v1" / "study_pb2.pyi").exists()


def test_packages_are_paths_and_versioned(compiled: list[FileDescriptorProto]) -> None:
    for file in compiled:
        assert file.syntax == "proto3"
        assert file.package == file.name.rpartition("/")[0].replace("/", ".")
        assert re.fullmatch(r"[a-z_]+\.v[1-9]\d*", file.package)
        assert SNAKE.fullmatch(Path(file.name).stem)


def test_everything_is_commented(compiled: list[FileDescriptorProto]) -> None:
    found = [element for file in compiled for element in elements(file)]
    assert {element.kind for element in found} == {"message", "field", "enum", "value", "service", "rpc"}
    assert [(e.kind, e.name) for e in found if not e.comment] == []
    assert [(e.kind, e.name, e.comment) for e in found if not e.comment.endswith(".")] == []


def test_names(compiled: list[FileDescriptorProto]) -> None:
    for element in (element for file in compiled for element in elements(file)):
        if element.kind == "field":
            assert SNAKE.fullmatch(element.name), element
        elif element.kind == "value":
            assert re.fullmatch(r"[A-Z][A-Z0-9_]*", element.name), element
        else:
            assert PASCAL.fullmatch(element.name), element


def test_services_and_their_messages(compiled: list[FileDescriptorProto]) -> None:
    used: list[str] = []
    for file in compiled:
        for service in file.service:
            assert service.name.endswith("Service")
            for method in service.method:
                asked, given = (name.rpartition(".")[2] for name in (method.input_type, method.output_type))
                assert (asked, given) == (f"{method.name}Request", f"{method.name}Response")
                used += [method.input_type, method.output_type]
    assert len(set(used)) == len(used) > 20
    declared = {
        f".{file.package}.{message.name}" for file in compiled for message in file.message_type
        if message.name.endswith(("Request", "Response"))
    }  # fmt: skip
    assert declared == set(used)


def test_enums(compiled: list[FileDescriptorProto]) -> None:
    enums = [item for file in compiled for item in file.enum_type]
    assert enums
    for item in enums:
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", item.name).upper() + "_"
        assert all(value.name.startswith(prefix) for value in item.value)
        assert (item.value[0].name, item.value[0].number) == (f"{prefix}UNSPECIFIED", 0)


def test_values_travel_as_bytes_and_times_say_their_unit(compiled: list[FileDescriptorProto]) -> None:
    """Matrices are little-endian `bytes`, never `repeated double`; a time is `..._time_ms` in an int64."""
    for file in compiled:
        for message in file.message_type:
            for part in message.field:
                if part.label == part.LABEL_REPEATED:
                    assert part.type not in (part.TYPE_DOUBLE, part.TYPE_FLOAT), f"{message.name}.{part.name}"
                if "time" in part.name.split("_"):
                    assert part.name.endswith("_time_ms"), f"{message.name}.{part.name}"
                    assert part.type == part.TYPE_INT64, f"{message.name}.{part.name}"

"""What an app imports says what it takes; its examples run against real providers."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from typing import Any

import pytest

import trimask_client
from trimask_client import Client, Queue, device_key


@pytest.mark.parametrize("kind", [Client, Queue])
def test_every_parameter_is_explained(kind: type) -> None:
    text = inspect.getdoc(kind) or ""
    for name in list(inspect.signature(kind).parameters):
        assert f"\n{name} : " in text or f"{name}," in text or f", {name}\n" in text, name


@pytest.mark.parametrize("kind", [Client, Queue])
def test_examples_print_what_they_show(
    kind: type, device_lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("study.json").write_text(device_lab.open_study(f"Example of {kind.__name__}").to_json())
    names = {"Client": Client, "Queue": Queue, "device_key": device_key}
    finder = doctest.DocTestFinder(recurse=False)
    (example,) = finder.find(kind, kind.__name__, globs=names, module=trimask_client)
    assert len(example.examples) >= 2
    failed, _ = doctest.DocTestRunner().run(example)
    assert failed == 0

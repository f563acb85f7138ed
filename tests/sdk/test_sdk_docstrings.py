"""What a researcher imports says what it takes, with an example; the examples run and print what they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trimask

MODULES = ("trimask", "trimask.plot", "trimask.release", "trimask.release.local")
RUN = (
    "trimask.plot._forest", "trimask.plot._precision", "trimask.plot._scree", "trimask.release.local", "trimask.simulation",
)  # fmt: skip


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions by their names."""
    for name in MODULES:
        module = importlib.import_module(name)
        for item in module.__all__:
            found = getattr(module, item)
            if inspect.isfunction(found):
                yield f"{name}.{item}", found


@pytest.mark.parametrize("name", sorted(dict(functions())))
def test_parameters_are_named_and_there_is_an_example(name: str) -> None:
    function = dict(functions())[name]
    words = inspect.getdoc(function) or ""
    assert ">>>" in words, f"{name} has no example"
    taken = inspect.signature(function).parameters
    missing = [item for item in taken if not re.search(rf"\b{item}\b", words)]
    assert not missing, f"{name} does not say what {missing} are"


@pytest.mark.parametrize("name", RUN)
def test_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    found = doctest.testmod(importlib.import_module(name), extraglobs={"trimask": trimask})
    assert found.attempted > 0
    assert found.failed == 0

"""What a researcher imports says what it takes and gives, with an example; the examples run and print what they show."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trimask
from trimask.fit.report import Report

MODULES = ("trimask", "trimask.fit", "trimask.plot", "trimask.release", "trimask.release.local")
SECTIONS = ("trimask", "trimask.fit")  # in the sections that numpydoc has
NEED_A_COLLECTOR = {
    "trimask.data.connection", "trimask.release.asking",
    "trimask.synthetic.synthesis",  # needs its extra; tests/sdk/test_sdk_synthetic.py runs it
}  # fmt: skip
NO_RESULT = {"trimask.fit.glm"}


def public(kind: Callable[[Any], bool]) -> Iterator[tuple[str, Any]]:
    """Public functions or classes by their names."""
    for name in MODULES:
        module = importlib.import_module(name)
        for item in module.__all__:
            found = getattr(module, item)
            if kind(inspect.unwrap(found)):
                yield f"{name}.{item}", found


FUNCTIONS = dict(public(inspect.isfunction))
CLASSES = {name: found for name, found in public(inspect.isclass) if name.rpartition(".")[0] in SECTIONS}
RUN = sorted(
    {inspect.unwrap(found).__module__ for found in {**FUNCTIONS, **CLASSES}.values()}
    | {"trimask.plot", "trimask.simulation"}
)


def named(words: str, function: Any) -> list[str]:
    """The parameters that the words do not have."""
    taken = [
        item for item in inspect.signature(function).parameters if item not in ("self", "cls", "_", "__")
    ]
    return [item for item in taken if not re.search(rf"(?<!\w){item}(?!\w)", words)]


def test_parameters_are_named_and_there_is_an_example() -> None:
    wrong = []
    for name, function in sorted(FUNCTIONS.items()):
        words = inspect.getdoc(function) or ""
        if ">>>" not in words:
            wrong.append(f"{name} has no example")
        wrong += [f"{name} does not say what {item} is" for item in named(words, function)]
        if name.rpartition(".")[0] in SECTIONS:
            for section in ("Parameters", "Returns", "Examples"):
                if section == "Returns" and name in NO_RESULT:
                    continue
                if f"\n{section}\n{'-' * len(section)}\n" not in words:
                    wrong.append(f"{name} has no section {section}")
    assert wrong == []


def test_classes_have_an_example_and_methods_name_what_they_take() -> None:
    wrong = []
    for name, found in sorted(CLASSES.items()):
        if ">>>" not in (inspect.getdoc(found) or ""):
            wrong.append(f"{name} has no example")
        for method, value in inspect.getmembers(
            found, lambda item: inspect.isfunction(item) or inspect.ismethod(item)
        ):
            if method.startswith("_") or method == "from_proto" or method in vars(Report):
                continue
            words = inspect.getdoc(value) or ""
            if not words:
                wrong.append(f"{name}.{method} has no docstring")
            wrong += [f"{name}.{method} does not say what {item} is" for item in named(words, value)]
    assert wrong == []


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory, noisy_folder: Path) -> Path:
    """A folder with out/demo in it, as after `make demo`."""
    folder = tmp_path_factory.mktemp("examples")
    shutil.copytree(noisy_folder, folder / "out" / "demo" / "rows")
    return folder


def test_examples_run(monkeypatch: pytest.MonkeyPatch, examples: Path) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(examples)
    wrong = []
    for name in RUN:
        importlib.import_module(name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", trimask.errors.CoverageWarning)
            found = doctest.testmod(sys.modules[name], extraglobs={"trimask": trimask})
        if found.failed or not (found.attempted or name in NEED_A_COLLECTOR):
            wrong.append(f"{name}: {found.failed} of {found.attempted} failed")  # which, doctest has printed
    assert wrong == []

"""Every error of every package comes back from a worker process as it was: pickled, and told the same."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest

from trimask_core.basics.errors import TrimaskError
from trimask_patience import patience

PACKAGES = (
    "trimask_core",
    "trimask_client",
    "trimask_terminal",
    "trimask_theory",
    "trimask",
    "trimask_cli",
    "trimask_server",
)
# What a constructor may ask for, by a piece of its annotation; the first that fits is taken.
GIVEN: tuple[tuple[str, Any], ...] = (
    ("Reason", "malformed"),
    ("Sequence[str]", ("a", "b")),
    ("list[str]", ["a"]),
    ("Mapping", {}),
    ("dict", {}),
    ("bytes", b"x"),
    ("bool", True),
    ("int", 3),
    ("float", 1.5),
    ("str", "some words"),
    ("object", "thing"),
)


def defined() -> Iterator[type[BaseException]]:
    seen: set[type[BaseException]] = set()
    for package in PACKAGES:
        top = importlib.import_module(package)
        for info in pkgutil.walk_packages(top.__path__, f"{package}."):
            if info.name.endswith("__main__"):
                continue
            module = importlib.import_module(info.name)
            for value in vars(module).values():
                if (
                    inspect.isclass(value)
                    and issubclass(value, BaseException)
                    and value.__module__ == info.name
                ):
                    seen.add(value)
    yield from sorted(seen, key=lambda kind: (kind.__module__, kind.__qualname__))


def made(kind: type[BaseException]) -> BaseException:
    arguments: list[Any] = []
    named: dict[str, Any] = {}
    if not inspect.isfunction(kind.__init__):
        return kind("some words")
    for parameter in list(inspect.signature(kind.__init__).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            arguments += ["some words"] if parameter.kind == parameter.VAR_POSITIONAL else []
            continue
        value = next((given for piece, given in GIVEN if piece in str(parameter.annotation)), "some words")
        if parameter.kind == parameter.KEYWORD_ONLY:
            named[parameter.name] = value
        else:
            arguments.append(value)
    return kind(*arguments, **named)


def test_every_error_can_be_pickled() -> None:
    kinds = list(defined())
    assert len(kinds) > 20
    assert sum(issubclass(kind, TrimaskError) for kind in kinds) > 15
    for kind in kinds:
        error = made(kind)
        again = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
        assert type(again) is kind
        assert (str(again), again.args) == (str(error), error.args), kind
        assert vars(again) == vars(error), kind


def test_an_error_of_a_worker_arrives() -> None:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(TrimaskError, match="alpha must be"),
    ):
        pool.submit(_fails).result(timeout=patience(120))


def _fails() -> None:
    from trimask_core.basics.errors import ParameterError

    raise ParameterError("alpha", "in (0, 1)", 2)

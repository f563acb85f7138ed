"""What users import is listed, and the list people rely on changes only on purpose."""

from __future__ import annotations

import ast
import json
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
API: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("update_public_api.py")))
PROMISED = [ROOT / path for path in API["PROMISED"]]
MOST_NAMES = 220


def body_without_docstring(path: Path) -> list[ast.stmt]:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return body[1:]
    return body


def bound_names(body: list[ast.stmt]) -> set[str]:
    """What a module's top level defines or imports, also below a condition."""
    names: set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)
            }
        elif isinstance(node, (ast.If, ast.Try)):
            names |= bound_names([*node.body, *node.orelse])
    return names


def wrong_with(path: Path, names: list[str] | None) -> str:
    """What is wrong with a module's list of names, in words; nothing, if nothing is."""
    if names is None:
        return "no __all__"
    if len(set(names)) != len(names):
        return "a name twice"
    if unbound := set(names) - bound_names(body_without_docstring(path)):
        return f"names that it does not have: {sorted(unbound)}"
    private = [name for name in names if name.startswith("_") and not name.startswith("__")]
    return f"names that are private: {private}" if private else ""


def test_every_promised_module_lists_its_names() -> None:
    wrong = {API["module_name"](path): wrong_with(path, API["declared_names"](path)) for path in PROMISED}
    assert {name: why for name, why in wrong.items() if why} == {}
    assert sum(map(len, API["public_api"]().values())) <= MOST_NAMES


def test_nothing_else_has_a_list() -> None:
    """A list is a promise to users; what other folders have may change from one version to the next."""
    found = [
        API["module_name"](path)
        for folder in ("client", "theory", "server", "sdk", "mobile")
        for path in sorted((ROOT / folder).glob("*/**/*.py"))
        if "trimask_proto" not in path.parts
        and path not in PROMISED
        and API["declared_names"](path) is not None
    ]
    assert found == []


def test_a_list_that_is_wrong_would_be_seen() -> None:
    path = Path(__file__)
    assert [wrong_with(path, names) for names in (None, ["ROOT", "ROOT"], ["nothing"], ["ROOT"])] == [
        "no __all__", "a name twice", "names that it does not have: ['nothing']", "",
    ]  # fmt: skip


def test_the_committed_list_is_current() -> None:
    committed = json.loads(API["LIST"].read_text(encoding="utf-8"))
    assert API["public_api"]() == committed, "if that is meant, run python tests/meta/update_public_api.py"

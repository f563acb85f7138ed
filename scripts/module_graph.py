"""Who imports whom, read from the source: every import counts, in functions and for the type checker too.

`python scripts/module_graph.py` prints the section of docs/architecture.md about the server's packages; with `--write` it
is put there. A test holds it current and the graph without cycles.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

__all__ = ["SERVER_PACKAGES", "cycles", "module_graph", "package_graph", "render_section", "section_in"]

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- packages: written by scripts/module_graph.py -->", "<!-- packages: end -->"
SERVER = "trimask_server"
# Each imports only packages before it; `right` and `collector` do not know each other.
SERVER_PACKAGES = (
    "settings", "store", "runtime", "access", "right", "collector", "suites", "programs", "local", "commands",
)  # fmt: skip
Graph = Mapping[str, set[str]]


def package_folder(package: str) -> Path:
    """Where a package of this project is."""
    (found,) = ROOT.glob(f"*/{package}/__init__.py")
    return found.parent


@cache
def module_graph(package: str) -> dict[str, set[str]]:
    """The modules of a package, and for each the modules of the same package that it imports anywhere."""
    folder = package_folder(package)
    paths = {_name(folder, path): path for path in sorted(folder.rglob("*.py"))}
    return {
        name: {found for found in _imported(path, paths.keys()) if found != name}
        for name, path in paths.items()
    }


def _name(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, modules: Iterable[str]) -> Iterator[str]:
    known = set(modules)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inside]
        yield from (name for name in names if name in known)


def cycles(graph: Graph) -> list[list[str]]:
    """The groups of nodes that can all reach each other, sorted; empty if there is no cycle."""
    reached = {start: _reachable(graph, start) for start in graph}
    groups = {
        tuple(sorted(other for other in reached[start] if start in reached[other])) for start in graph
    } - {()}
    return [list(group) for group in sorted(groups)]


def _reachable(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def package_graph(graph: Graph) -> dict[str, set[str]]:
    """The packages (folders) of the server and for each the packages it imports from."""
    packages: dict[str, set[str]] = {}
    for name, imported in graph.items():
        package = _package(name)
        if package:
            packages.setdefault(package, set()).update(_package(other) for other in imported)
    return {package: others - {package, ""} for package, others in packages.items()}


def _package(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def _needed(packages: Graph, package: str) -> list[str]:
    """The packages right below one: those that are not reached through another one anyway."""
    through = set().union(*(_reachable(packages, other) for other in packages[package]))
    return [other for other in SERVER_PACKAGES if other in packages[package] - through]


def render_section() -> str:
    """The section of the page."""
    return f"{BEGIN}\n\n{_packages()}\n\n{END}"


def _packages() -> str:
    """The packages from the bottom up, and a picture of their imports."""
    packages = package_graph(module_graph(SERVER))
    lines = []
    for package in SERVER_PACKAGES:
        opening = (package_folder(SERVER) / package / "__init__.py").read_text(encoding="utf-8")
        words = (ast.get_docstring(ast.parse(opening)) or "").partition("\n")[0]
        lines.append(f"- `{package}`: {words.rstrip('.')}")
    lines += ["", "```mermaid", "graph BT"]
    lines += [
        f"  {package} --> {other}" for package in SERVER_PACKAGES for other in _needed(packages, package)
    ]
    return "\n".join([*lines, "```"])


def section_in(page: str) -> str:
    """The section as it is in a page."""
    return page[page.index(BEGIN) : page.index(END) + len(END)]


def main() -> None:
    """Print the section, or write it."""
    parser = argparse.ArgumentParser(description="The server's packages.")
    parser.add_argument("--write", action="store_true", help="put the section into docs/architecture.md")
    section = render_section()
    if not parser.parse_args().write:
        print(section)
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(section_in(page), section), encoding="utf-8")


if __name__ == "__main__":
    main()

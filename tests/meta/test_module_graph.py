"""No cycles among modules, lazy imports and those for the type checker included; the server's packages import one way."""

from __future__ import annotations

import itertools

from scripts.module_graph import (
    PAGE,
    SERVER_PACKAGES,
    cycles,
    module_graph,
    package_graph,
    render_section,
    section_in,
)

PACKAGES = [
    "trimask_core",
    "trimask_client",
    "trimask_terminal",
    "trimask",
    "trimask_server",
    "trimask_theory",
    "trimask_cli",
    "trimask_mobile",
]


def test_no_module_imports_itself_in_the_end() -> None:
    graphs = {package: module_graph(package) for package in PACKAGES}
    assert [package for package, graph in graphs.items() if len(graph) <= 10] == []
    assert [cycle for graph in graphs.values() for cycle in cycles(graph)] == []


def test_rooms_of_the_server_import_one_way() -> None:
    packages = package_graph(module_graph("trimask_server"))
    assert set(packages) == set(SERVER_PACKAGES)
    for package, imported in packages.items():
        assert imported <= set(SERVER_PACKAGES[: SERVER_PACKAGES.index(package)]), package
    assert "right" not in packages["collector"]


def test_suites_do_not_know_each_other() -> None:
    graph = module_graph("trimask_server")
    for name, imported in graph.items():
        for other in imported:
            mine, theirs = (_suite(module) for module in (name, other))
            assert not (mine and theirs and mine != theirs), f"{name} imports {other}"


def _suite(module: str) -> str:
    """The suite a module belongs to; the interface and the registry belong to none."""
    parts = module.split(".")
    return parts[2] if parts[1:2] == ["suites"] and len(parts) > 3 else ""


def test_nobody_looks_into_a_suite_but_the_registry() -> None:
    for name, imported in module_graph("trimask_server").items():
        inside = {other for other in imported if _suite(other)}
        assert not inside or _suite(name) or name == "trimask_server.programs.roles", name


def test_the_page_is_current() -> None:
    """`python scripts/module_graph.py --write` makes it so."""
    assert section_in(PAGE.read_text(encoding="utf-8")) == render_section()


def test_a_cycle_is_found() -> None:
    line = {str(number): {str(number + 1)} for number in range(4)} | {"4": set()}
    assert cycles(line) == []
    for start, end in itertools.combinations(range(5), 2):
        bent = line | {str(end): line[str(end)] | {str(start)}}
        assert cycles(bent) == [[str(number) for number in range(start, end + 1)]]

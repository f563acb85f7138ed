"""SQL on the tables whose states are drawn is in the module that owns the table."""

from __future__ import annotations

import ast
import re

from scripts.module_graph import package_folder

OWNERS = {
    "blocks": {"store/release_table.py", "store/held_blocks.py"},
    "releases": {"store/release_table.py"},
}
SQL = re.compile(rf"(?:\b(?:FROM|INTO|UPDATE|JOIN|TABLE|ON)\s+|^)({'|'.join(OWNERS)})(?:\s*\(|\s+[A-Z]|\s*$)")


def _tables_in(source: str) -> set[str]:
    """The owned tables that a module's text constants have SQL on."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {table for text in texts if isinstance(text, str) for table in SQL.findall(text) if text != table}


def test_sql_on_a_table_is_where_its_states_are() -> None:
    folder = package_folder("trimask_server")
    modules = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.py")}
    found = {
        table: {name for name, source in modules.items() if table in _tables_in(source)} for table in OWNERS
    }
    assert found == {
        table: owners | {"store/migrations/m20261116_initial.py"} for table, owners in OWNERS.items()
    }


def test_sql_on_a_table_is_found() -> None:
    for text in (
        "SELECT 1 FROM blocks WHERE a",
        "UPDATE blocks SET a",
        "DELETE FROM blocks",
        "blocks WHERE a",
    ):
        assert _tables_in(f"x = {text!r}") == {"blocks"}
        assert _tables_in(f"x = f'{text} {{y}}'") == {"blocks"}
    assert _tables_in("x = 'releases', 'nobody wrote blocks of rows into releases'") == set()

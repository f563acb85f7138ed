"""Imports run one way, and a device's packages need nothing a device does not have."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Who may import whom: proto, core <- client <- terminal, mobile; core <- theory <- server, sdk; the owner's commands on top.
ALLOWED: dict[str, set[str]] = {
    "client/trimask_proto": set(),
    "client/trimask_core": set(),
    "client/trimask_client": {"trimask_proto", "trimask_core"},
    "client/trimask_terminal": {"trimask_proto", "trimask_core", "trimask_client"},
    "mobile/trimask_mobile": {"trimask_proto", "trimask_core", "trimask_client"},
    "theory/trimask_theory": {"trimask_core"},
    "server/trimask_server": {
        "trimask_proto", "trimask_core", "trimask_client", "trimask_theory", "trimask_terminal",
    },
    "sdk/trimask": {"trimask_proto", "trimask_core", "trimask_client", "trimask_theory"},
    "sdk/trimask_cli": {
        "trimask_proto", "trimask_core", "trimask_client", "trimask_theory", "trimask_terminal", "trimask_server",
        "trimask",
    },
}  # fmt: skip
# Where a package is allowed only in part of another.
ONLY_FROM = {
    ("client/trimask_terminal", "trimask_client"): "client/trimask_terminal/device",
    ("server/trimask_server", "trimask_client"): "server/trimask_server/commands",
    ("server/trimask_server", "trimask_terminal"): "server/trimask_server/commands",
    ("sdk/trimask_cli", "trimask_server"): "sdk/trimask_cli/demo",  # an extra of the distribution
}
# What each may take from outside the standard library. Programs take what their pyproject.toml names.
OUTSIDE: dict[str, set[str]] = {
    "client/trimask_proto": {"google", "grpc"},
    "client/trimask_core": {"numpy", "cryptography"},
    "client/trimask_client": {"google", "grpc", "h2"},
    "client/trimask_terminal": {"rich", "shtab"},
    "mobile/trimask_mobile": {"kivy", "android", "jnius", "segno"},
    "theory/trimask_theory": {"flint", "numpy", "scipy"},  # flint only where certified=True asks for it
    "server/trimask_server": {
        "aiohttp", "cryptography", "google", "grpc", "grpc_health", "grpc_reflection", "jinja2", "numpy", "opentelemetry",
        "prometheus_client", "psycopg", "pyarrow", "rich", "threadpoolctl", "uvloop",
    },
}  # fmt: skip
ROWS = ROOT / "client/trimask_core/rows"  # noise_columns.py and payloads.py: what a device does with one row
ONLY_IN = {
    "grpc": {"grpc_channel.py"},
    "h2": {"h2_connection.py"},
}


def files(package: str) -> list[Path]:
    found = sorted((ROOT / package).rglob("*.py"))
    assert found, f"{package} has no modules"
    return found


@cache
def parsed(path: Path) -> tuple[ast.AST, ...]:
    """Every node of a file, those of its body first; each file is read once."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@cache
def imported(path: Path) -> frozenset[str]:
    """Every module a file imports, wherever in the file."""
    found: set[str] = set()
    for node in parsed(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            found.add(node.module)
    return frozenset(found)


def top_levels(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imported(path)}


def test_every_package_is_in_the_rule() -> None:
    there = {
        str(path.parent.relative_to(ROOT))
        for folder in ("client", "theory", "server", "sdk", "mobile")
        for path in (ROOT / folder).glob("*/__init__.py")
    }
    assert there == set(ALLOWED)


@pytest.mark.parametrize("package", ALLOWED)
def test_imports_run_one_way(package: str) -> None:
    ours = {Path(name).name for name in ALLOWED}
    for path in files(package):
        wrong = (top_levels(path) & ours) - ALLOWED[package] - {Path(package).name}
        assert not wrong, f"{path.relative_to(ROOT)} imports {wrong}"


@pytest.mark.parametrize(("package", "other"), ONLY_FROM)
def test_imports_that_only_a_part_may_have(package: str, other: str) -> None:
    inside = ROOT / ONLY_FROM[package, other]
    importing = [path for path in files(package) if other in top_levels(path)]
    assert importing, f"nothing in {package} imports {other}; the rule can go"
    assert all(path.is_relative_to(inside) for path in importing), importing


@pytest.mark.parametrize("package", OUTSIDE)
def test_what_comes_from_outside(package: str) -> None:
    for path in files(package):
        outside = {
            name for name in top_levels(path)
            if name not in sys.stdlib_module_names and not name.startswith("trimask")
        }  # fmt: skip
        assert outside <= OUTSIDE[package], f"{path.relative_to(ROOT)} imports {outside - OUTSIDE[package]}"


def test_nothing_of_the_product_needs_what_only_the_papers_need() -> None:
    papers = "theory/trimask_theory/papers"
    assert not [
        path
        for package in ALLOWED
        for path in files(package)
        if not path.is_relative_to(ROOT / papers)
        and any("trimask_theory.papers" in name for name in imported(path))
    ]


def test_the_model_of_the_app_has_no_window() -> None:
    for path in (
        *files("mobile/trimask_mobile/model"),
        *files("mobile/trimask_mobile/kiosk"),
        ROOT / "mobile/trimask_mobile/theme.py",
    ):
        assert not {name for name in top_levels(path) if name in OUTSIDE["mobile/trimask_mobile"]}, path.name
        assert not {name for name in imported(path) if name.startswith("trimask_mobile.widgets")}, path.name


def test_transports_keep_their_library_to_themselves() -> None:
    for path in files("client/trimask_client"):
        for library, where in ONLY_IN.items():
            assert library not in top_levels(path) or path.name in where, f"{path.name} imports {library}"


@pytest.mark.parametrize("package", ["client/trimask_core", "client/trimask_client", "server/trimask_server"])
def test_no_generator_but_the_cryptographic_one(package: str) -> None:
    """numpy.random and random can be rewound from their output, and take seeds of 32 bits."""
    for path in files(package):
        assert not imported(path) & {"random", "numpy.random"}, path.name
        for node in parsed(path):
            if isinstance(node, ast.Attribute) and node.attr == "random":
                assert ast.unparse(node) not in ("np.random", "numpy.random"), path.name


def test_only_what_nodes_and_gateways_use_needs_numpy() -> None:
    """A device's own modules import it neither at the top nor, as `tests/device` sees, while it takes part."""
    needing = {
        path.name
        for package in ("client/trimask_core", "client/trimask_client")
        for path in files(package)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Import) and any(alias.name == "numpy" for alias in node.names)
    }
    assert needing == {"arrays.py", "gateway.py"}
    without = (*files("client/trimask_client"), ROWS / "noise_columns.py")
    assert not any("numpy" in top_levels(path) for path in without)
    functions = [node for node in parsed(ROWS / "payloads.py") if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 20
    assert [one.name for one in functions if "import numpy" in ast.unparse(one)] == [
        "check_payload"
    ]  # a node's


BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(name + " is blocked", name=name)
sys.meta_path.insert(0, Blocked())
"""


@pytest.mark.parametrize("blocked", [("grpc", "scipy", "pandas", "h2"), ("grpc", "scipy", "pandas")])
def test_a_device_imports_everything_without_them(blocked: tuple[str, ...]) -> None:
    """Every module of core, the messages, and the client but for its transports; then a submission is sealed."""
    core = [
        ".".join(path.relative_to(ROOT / "client").with_suffix("").parts)
        for path in files("client/trimask_core")
        if path.stem != "__init__"
    ]
    protos = [f"trimask_proto.v1.{p.stem}" for p in files("client/trimask_proto") if p.stem.endswith("_pb2")]
    modules = [*core, *protos, "trimask_client", "trimask_client.client", "trimask_client.transport"]
    program = (
        BLOCK.format(blocked=blocked)
        + "\n".join(f"import {name}" for name in modules)
        + (
            f"\nassert not [name for name in sys.modules if name.partition('.')[0] in {blocked!r}]\nprint('imported')\n"
        )
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "imported\n", done.stderr


def test_the_block_works() -> None:
    program = BLOCK.format(blocked=("grpc",)) + "import trimask_client.grpc_channel"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "grpc is blocked" in done.stderr


START = """
import asyncio, sys
from dataclasses import replace
from pathlib import Path
from trimask_server.local.keys import make_keys, node_places
from trimask_server.programs.roles import start_node
from trimask_server.settings.config import load_config
folder = Path(sys.argv[1])
make_keys(folder, node_places(2, 1, "127.0.0.1", 7400))

async def start(name, role):
    config = load_config(folder / name / "node.toml", role)
    config = replace(config, listen=config.listen and "127.0.0.1:0", peer_listen="127.0.0.1:0")
    await (await start_node(role, config)).host.stop(0)

for name, role in (("R1", "right"), ("L1", "left"), ("collector", "collector")):
    asyncio.run(start(name, role))
print(sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[2].split())))
"""
# Half a second and more of CPU each, which a node can do without until somebody asks it something.
NOT_AT_START = (
    "scipy",
    "pandas",
    "pyarrow",
    "matplotlib",
    "formulaic",
    "trimask_theory",
    "aiohttp",
    "jinja2",
    "rich",
)


def test_nodes_start_without_what_they_may_never_need(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", START, str(tmp_path), " ".join(NOT_AT_START)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr

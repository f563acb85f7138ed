"""The distributions, built for real: what is in each, what it asks for, and that it works without the others.

The everyday share unpacks wheels beside the installed dependencies and blocks what a distribution must do without.
The slow share installs each alone in a clean environment from the package index, and holds what came with it to a list.
"""

from __future__ import annotations

import configparser
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts import sbom
from trimask_server.local.cluster import free_base_port
from trimask_server.local.keys import NodePlace, make_authority, make_node
from trimask_terminal import program

ROOT = Path(__file__).parents[2]
UNREACHABLE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|ProxyError"
)
FOLDERS = {
    "trimask-client": "client",
    "trimask-theory": "theory",
    "trimask-server": "server",
    "trimask": "sdk",
    "trimask-mobile": "mobile",
}
PACKAGES = {
    "trimask-client": {"trimask_proto", "trimask_core", "trimask_client", "trimask_terminal"},
    "trimask-theory": {"trimask_theory"},
    "trimask-server": {"trimask_server"},
    "trimask": {"trimask", "trimask_cli"},
    "trimask-mobile": {"trimask_mobile"},
}
NEEDS = {
    "trimask-client": {"cryptography", "h2", "protobuf"},
    "trimask-theory": {"numpy", "scipy", "trimask-client"},
    "trimask-server": {
        "aiohttp", "cryptography", "grpcio", "grpcio-health-checking", "grpcio-reflection", "jinja2", "numpy",
        "opentelemetry-api", "prometheus-client", "protobuf", "rich", "threadpoolctl", "trimask-client", "trimask-theory",
        "uvloop",
    },
    "trimask": {
        "cryptography", "formulaic", "grpcio", "matplotlib", "numpy", "openpyxl", "pandas", "protobuf", "pyarrow", "rich",
        "scipy", "segno", "trimask-client", "trimask-theory",
    },
    "trimask-mobile": {"kivy", "segno", "trimask-client"},
}  # fmt: skip
NOTEBOOK = {
    "IPython",
    "ipykernel",
    "jupyter_core",
    "matplotlib",
    "nbformat",
    "pandas",
    "formulaic",
    "openpyxl",
    "segno",
}


@dataclass(frozen=True)
class Wheel:
    """A built wheel, opened."""

    path: Path

    @property
    def files(self) -> list[str]:
        """What it installs, but for its metadata."""
        return [name for name in zipfile.ZipFile(self.path).namelist() if ".dist-info/" not in name]

    def metadata(self, name: str) -> str:
        """One file of its .dist-info; empty if there is none."""
        archive = zipfile.ZipFile(self.path)
        found = [item for item in archive.namelist() if item.endswith(f".dist-info/{name}")]
        return archive.read(found[0]).decode() if found else ""

    def entry_points(self, group: str) -> dict[str, str]:
        """The entry points of a group."""
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their letters
        parser.read_string(self.metadata("entry_points.txt"))
        return dict(parser[group]) if parser.has_section(group) else {}


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    """Built with the installed hatchling, without network; hatchling leaves nothing in the source folders."""
    out = tmp_path_factory.mktemp("wheels")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    folders = [str(ROOT / folder) for folder in FOLDERS.values()]
    done = subprocess.run(
        [*command, "--wheel-dir", str(out), *folders], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    built = {Wheel(path).path.name.split("-")[0].replace("_", "-"): Wheel(path) for path in out.glob("*.whl")}
    assert set(built) == set(FOLDERS)
    return built


def test_every_pyproject_is_a_distribution_here() -> None:
    there = {
        tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"]: path.parent.name
        for path in ROOT.glob("*/pyproject.toml")
    }
    assert there == FOLDERS


def test_the_root_installs_every_distribution_from_its_folder(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*command, "--wheel-dir", str(tmp_path), str(ROOT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    asked = {
        requirement.name: (Path(str(requirement.url).removeprefix("file://")).name, str(requirement.marker))
        for requirement in map(
            Requirement, Parser().parsestr(Wheel(wheel).metadata("METADATA")).get_all("Requires-Dist") or []
        )
    }
    assert {name: folder for name, (folder, _) in asked.items()} == FOLDERS
    assert [name for name, (_, marker) in asked.items() if "extra" in marker] == ["trimask-mobile"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_its_packages_whole_and_nothing_else(wheels: dict[str, Wheel], name: str) -> None:
    files = wheels[name].files
    assert {file.partition("/")[0] for file in files} == PACKAGES[name]
    folder = ROOT / FOLDERS[name]
    sources = {
        str(path.relative_to(folder))
        for package in PACKAGES[name]
        for path in (folder / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if name == "trimask-client":  # and the survey page, without what only its makers need
        web = folder / "web"
        paths = [path.relative_to(web) for path in web.rglob("*") if path.is_file()]
        page = {
            path
            for path in paths
            if path.parts[0] in ("page", "device", "form", "index.html", "404.html")
            and path.parts[:2] != ("page", "words")  # made as the page is exported
        }
        assert page
        sources |= {f"trimask_client/web/{path.as_posix()}" for path in page}
    assert set(files) == sources
    assert {f"{package}/py.typed" for package in PACKAGES[name]} <= sources


def test_a_second_clean_build_gives_the_same_bytes(wheels: dict[str, Wheel], tmp_path: Path) -> None:
    """Whoever doubts a published wheel builds it again. Another folder, other dates and rights of files, another umask."""
    copy = tmp_path / "elsewhere" / "copy"
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, kept.stdout.split("\0")):
        if name.partition("/")[0] in (*FOLDERS.values(), "LICENSE", "VERSION") and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
            os.utime(copy / name, (10**9, 10**9))
    out = tmp_path / "again"
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out)]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            *options,
            *(str(copy / folder) for folder in FOLDERS.values()),
        ],
        check=True,
        umask=0o077,
    )
    again = {path.name: path.read_bytes() for path in out.glob("*.whl")}
    assert again == {wheel.path.name: wheel.path.read_bytes() for wheel in wheels.values()}


def test_every_bill_of_materials_is_whole_and_the_same_again() -> None:
    found = sbom.bills()
    assert set(found) == {*FOLDERS, *sbom.IMAGES}
    assert json.dumps(found) == json.dumps(sbom.bills())
    versions = {name: version for name, (version, _) in sbom.locked(ROOT / "requirements.lock").items()}
    for name, document in found.items():
        parts = {part["name"]: part for part in document["components"]}
        assert NEEDS.get(name, set()) <= set(parts), name
        for part in parts.values():
            ours = part["name"] in FOLDERS
            assert ours or part["hashes"], f"{name}: {part['name']} has no hash"
            assert ours or name in sbom.IMAGES or part["version"] == versions[part["name"]]
    device = {part["name"] for part in found["trimask-client"]["components"]}
    assert device == {"cryptography", "cffi", "pycparser", "h2", "hpack", "hyperframe", "protobuf"}
    images = {image: found[image]["components"] for image in sbom.IMAGES}
    assert {image: {"pyarrow"} & {part["name"] for part in parts} for image, parts in images.items()} == {
        "trimask-provider-image": set(),
        "trimask-collector-image": {"pyarrow"},
    }


def test_no_package_is_in_two_wheels(wheels: dict[str, Wheel]) -> None:
    everything = [file for wheel in wheels.values() for file in wheel.files]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize("name", FOLDERS)
def test_metadata(wheels: dict[str, Wheel], name: str) -> None:
    message = Parser().parsestr(wheels[name].metadata("METADATA"))
    assert message["Name"] == name
    assert message["Version"] == (ROOT / "VERSION").read_text(encoding="ascii").strip()
    assert len(str(message.get_payload())) > 200, "a README of its own"
    assert wheels[name].metadata("licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")
    needed = [Requirement(line) for line in message.get_all("Requires-Dist") or []]
    assert {item.name for item in needed if "extra ==" not in str(item.marker)} == NEEDS[name]
    for item in needed:  # a distribution goes with the others of its version
        assert not item.name.startswith("trimask") or item.specifier.contains(message["Version"]), item


def test_the_optional_requirements_of_a_device(wheels: dict[str, Wheel]) -> None:
    message = Parser().parsestr(wheels["trimask-client"].metadata("METADATA"))
    extras = {line for line in message.get_all("Requires-Dist") or [] if "extra ==" in line}
    assert extras == {
        "grpcio>=1.85; extra == 'grpc'", "numpy>=2.2; extra == 'numpy'", "rich>=14; extra == 'terminal'",
        "shtab>=1.8; extra == 'terminal'",
    }  # fmt: skip


def test_one_distribution_owns_the_program(wheels: dict[str, Wheel]) -> None:
    scripts = {
        name: set(wheel.entry_points("console_scripts")) | set(wheel.entry_points("gui_scripts"))
        for name, wheel in wheels.items()
    }
    assert scripts == {
        "trimask-client": {"trimask", "trimask-client"},
        "trimask-theory": set(),
        "trimask-server": set(),
        "trimask": set(),
        "trimask-mobile": {"trimask-app"},
    }


def test_the_program_knows_which_distribution_has_a_command(wheels: dict[str, Wheel]) -> None:
    named = {name: set(wheel.entry_points(program.GROUP)) for name, wheel in wheels.items()}
    assert {name: set(words) for name, words in program._COMMANDS.items()} == {
        k: v for k, v in named.items() if v
    }


# -I leaves the environment's variables and the current folder out; -S its site-packages, where the editable installs
# are. Then the wheels come first, and of what is installed only what is not blocked is found after them.
ISOLATED = """
import importlib, sys
wheels, site, blocked, modules = (item.split(",") for item in sys.argv[1:5])
sys.path[:0] = [*wheels, *site]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(name + " is blocked", name=name)
sys.meta_path.insert(0, Blocked())
for name in modules:
    module = importlib.import_module(name)
    assert any(module.__file__.startswith(wheel) for wheel in wheels), module.__file__
print("imported", len(modules))
"""
# What is unpacked; what must not be needed; which modules may stay out because an extra brings what they import.
ALONE: dict[str, tuple[Sequence[str], set[str], tuple[str, ...]]] = {
    "trimask-client": (
        ("trimask-client",),
        {"numpy", "grpc", "scipy", "rich", *NOTEBOOK},
        (
            "trimask_client.grpc", "trimask_core.moments.arrays", "trimask_core.moments.gateway",
            "trimask_core.rows.gateway", "trimask_core.rows.arrays",
            "trimask_terminal.study_view", "trimask_terminal.study_view", "trimask_terminal.study_view",
        ),
    ),
    "trimask-theory": (
        ("trimask-client", "trimask-theory"), {"grpc", "h2", "google", "rich", "pyarrow", *NOTEBOOK}, (),
    ),
    "trimask-server": (
        ("trimask-client", "trimask-theory", "trimask-server"),
        {"pyarrow", "psycopg", *NOTEBOOK},
        ("trimask_server.store.postgres",),
    ),
    "trimask": (
        ("trimask-client", "trimask-theory", "trimask"),
        {"aiohttp", "jinja2", "prometheus_client", "opentelemetry", "uvloop", "psycopg", "IPython"},
        ("trimask_cli.demo.run_demo",),
    ),
    "trimask-mobile": (
        ("trimask-client", "trimask-mobile"),
        {"numpy", "grpc", "scipy", "rich", *NOTEBOOK},
        ("trimask_mobile.app", "trimask_mobile.widgets", "trimask_mobile.screens"),  # these open a window
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOLDERS)
def test_it_imports_without_what_it_does_not_ask_for(
    wheels: dict[str, Wheel], name: str, tmp_path: Path
) -> None:
    with_it, blocked, left_out = ALONE[name]
    for other in with_it:
        zipfile.ZipFile(wheels[other].path).extractall(tmp_path)
    modules = [
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in wheels[name].files
        if file.endswith(".py") and not file.endswith(("__main__.py", "_pb2_grpc.py"))
    ]
    chosen = [module for module in modules if not module.startswith(left_out)]
    assert len(chosen) > 0.3 * len(modules)
    site = [str(Path(str(spec.origin)).parents[1]) for spec in [find_spec("numpy")] if spec is not None]
    arguments = ["-I", "-S", "-c", ISOLATED, str(tmp_path), *map(",".join, (site, blocked, chosen))]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout == f"imported {len(chosen)}\n", done.stderr


DEVICE = {"cffi", "cryptography", "h2", "hpack", "hyperframe", "protobuf", "pycparser", "trimask-client"}
THEORY = {*DEVICE, "numpy", "scipy", "trimask-theory"}
TERMINAL = {"markdown-it-py", "mdurl", "pygments", "rich", "shtab"}
PROVIDER = {
    *THEORY, *TERMINAL, "aiohappyeyeballs", "aiohttp", "aiosignal", "attrs", "frozenlist", "grpcio",
    "grpcio-health-checking", "grpcio-reflection", "idna", "jinja2", "markupsafe", "multidict", "opentelemetry-api",
    "prometheus-client", "propcache", "threadpoolctl", "trimask-server", "typing-extensions", "uvloop", "yarl",
}  # fmt: skip
RESEARCHER = {
    *THEORY, *TERMINAL, "contourpy", "cycler", "et-xmlfile", "fonttools", "formulaic", "grpcio", "interface-meta",
    "kiwisolver", "matplotlib", "narwhals", "openpyxl", "packaging", "pandas", "pillow", "pyarrow", "pyparsing",
    "python-dateutil", "segno", "trimask", "typing-extensions", "tzdata", "wrapt",
}  # fmt: skip
APP = {
    *DEVICE, "certifi", "charset-normalizer", "docutils", "filetype", "idna", "kivy", "kivy-garden", "pygments", "requests",
    "segno", "trimask-mobile", "urllib3",
}  # fmt: skip
# What is installed, the distributions that may be there then, and megabytes that must be enough.
ENVIRONMENTS: dict[str, tuple[str, set[str], int]] = {
    "device": ("trimask-client", DEVICE, 80),
    "theory": ("trimask-theory", THEORY, 330),
    "provider": ("trimask-server", PROVIDER, 400),
    "collector": ("trimask-server[collector]", PROVIDER | {"pyarrow"}, 600),
    "researcher": ("trimask", RESEARCHER, 800),
    "demo": ("trimask[demo]", RESEARCHER | PROVIDER, 900),
    "app": ("trimask-mobile", APP, 250),
}
PROGRAMS: dict[str, list[tuple[list[str], int, str]]] = {
    "device": [
        (["trimask-client", "status"], 0, "No study joined yet"),
        (["trimask", "right"], 2, "pip install trimask-server"),
        (["trimask", "plan"], 2, "pip install trimask"),
    ],
    "theory": [
        (["python", "-c", "from trimask_theory.gaussian import gdp; print(gdp.mu(1.0, 1e-6))"], 0, "0.2")
    ],
    "provider": [
        (["trimask", "keys", "keys"], 0, "certificate's name"),
        (["trimask", "collector", "--config", "keys/collector/node.toml"], 2, "trimask-server[collector]"),
        (["trimask", "study", "example"], 2, "pip install trimask"),
    ],
    "collector": [(["trimask", "left", "--config", "none.toml"], 2, "none.toml: No such file")],
    "researcher": [
        (["trimask", "study", "example"], 0, "systolic"),
        (["trimask", "demo"], 2, "pip install 'trimask[demo]'"),
    ],
    "demo": [(["trimask", "demo", "--participants", "128", "--block-size", "64", "--exact"], 0, "")],
    "app": [(["python", "-c", "import trimask_mobile.model.navigation, kivy; print('app')"], 0, "app")],
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("role", ENVIRONMENTS)
def test_alone_in_a_clean_environment(wheels: dict[str, Wheel], role: str, tmp_path: Path) -> None:
    """From the package index: its program runs, and nothing came with it that is not on the list."""
    asked, listed, megabytes = ENVIRONMENTS[role]
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MYPY"))}
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, env=outside)
    bare = _installed(environment, outside)
    links = wheels["trimask-client"].path.parent
    pip = [environment / "bin" / "pip", "--disable-pip-version-check", "install", "--quiet", "--retries", "1"]
    done = subprocess.run(
        [*pip, "--find-links", links, asked], capture_output=True, text=True, check=False, env=outside
    )
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    assert _installed(environment, outside) - bare == listed
    size = sum(path.lstat().st_size for path in environment.rglob("*")) / 1e6
    print(f"{role}: {size:.0f} MB")
    assert size < megabytes
    inside = outside | {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for command, status, words in PROGRAMS[role]:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=inside, cwd=tmp_path)
        assert ran.returncode == status, ran.stderr
        assert words in ran.stdout + ran.stderr
    if role == "provider":
        _run_a_left_provider(tmp_path, inside)


def _run_a_left_provider(folder: Path, variables: dict[str, str]) -> None:
    """A node without pyarrow, pandas and the rest comes up, and stops when it is told to."""
    make_node(folder / "L1", NodePlace("L1", "", f"127.0.0.1:{free_base_port(1)}"), make_authority())
    command = ["trimask", "left", "--config", folder / "L1" / "node.toml"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:  # ends with the process
            said.append(line)
            if " ready " in line:
                process.terminate()
        assert process.wait() == 0, said
    assert any(" ready " in line for line in said), said


def _installed(environment: Path, variables: dict[str, str]) -> set[str]:
    """The names of the distributions in an environment, normalized."""
    done = subprocess.run(
        [environment / "bin" / "pip", "--disable-pip-version-check", "list", "--format", "json"],
        capture_output=True, text=True, check=True, env=variables,
    )  # fmt: skip
    return {canonicalize_name(item["name"]) for item in json.loads(done.stdout)}

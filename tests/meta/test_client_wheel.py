"""The light distribution: built for real, it has its three packages and nothing else, and they import from it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"trimask_proto", "trimask_core", "trimask_client"}
BLOCKED = ("grpc", "scipy", "pandas", "h2")
# -I leaves the environment's variables and the current folder out; -S its site-packages, where the editable install
# of the whole product is. Then the wheel comes first, and only what it depends on is found after it.
PROGRAM = """
import sys
wheel, site, blocked = sys.argv[1], sys.argv[2], set(sys.argv[3].split(","))
sys.path[:0] = [wheel, site]
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(name + " is blocked", name=name)
sys.meta_path.insert(0, Blocked())
import trimask_client, trimask_core.submission, trimask_proto.v1.submission_pb2
for module in (trimask_client, trimask_core, trimask_proto):
    assert module.__file__.startswith(wheel), module.__file__
print(trimask_client.Client.__name__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with the installed hatchling, without network; hatchling leaves nothing in the source folder."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed; `pip install hatchling`, or the dev extra")
    out = tmp_path_factory.mktemp("wheel")
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
    done = subprocess.run(
        [*command, "--wheel-dir", str(out), str(ROOT / "client")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_it_holds_the_three_packages_whole_and_nothing_else(wheel: Path) -> None:
    assert wheel.name.startswith("trimask_client-")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.partition("/")[0] for name in names} == PACKAGES
    sources = {
        str(path.relative_to(ROOT / "client"))
        for package in PACKAGES
        for path in (ROOT / "client" / package).rglob("*")
        if path.suffix in (".py", ".pyi", ".typed")
    }
    assert set(names) == sources
    assert {f"{package}/py.typed" for package in PACKAGES} <= sources


def test_its_metadata(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (path,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
    lines = archive.read(path).decode().splitlines()
    needed = sorted(
        line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist: ")
    )
    assert [line for line in needed if "extra ==" not in line] == [
        "cryptography>=42", "h2>=4.2", "numpy>=2.2", "protobuf>=7.35.1",
    ]  # fmt: skip
    assert "grpcio>=1.85; extra == 'grpc'" in needed
    assert "Name: trimask-client" in lines


def test_it_imports_without_grpc_scipy_or_pandas(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    site = str(Path(str(find_spec("numpy").origin)).parents[1])  # type: ignore[union-attr]
    arguments = ["-I", "-S", "-c", PROGRAM, str(target), site, ",".join(BLOCKED)]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert done.stdout == "Client\n", done.stderr

"""What goes into the Android package: it resolves for Android, asks for nothing it does not need, and it is enough.

No package can be built here (no SDK, no NDK); what can be checked without them is.
"""

from __future__ import annotations

import ast
import configparser
import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

ROOT = Path(__file__).parents[2]
# Built by python-for-android itself. The rest are wheels.
RECIPES = {"python3", "openssl", "cryptography", "kivy", "pyjnius"}
PROVIDES = {
    "kivy": "kivy",
    "cryptography": "cryptography",
    "google": "protobuf",
    "h2": "h2",
    "jnius": "pyjnius",
    "segno": "segno",
}
UNREACHABLE = re.compile(
    r"Retrying|NewConnectionError|ConnectionError|ConnectTimeout|ProxyError|Temporary failure"
)


@pytest.fixture(scope="module")
def spec() -> configparser.SectionProxy:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "mobile" / "buildozer.spec")
    return parser["app"]


@pytest.fixture(scope="module")
def requirements(spec: configparser.SectionProxy) -> dict[str, str]:
    """Requirements by name."""
    return {re.split(r"[=<>]", item)[0]: item for item in spec["requirements"].split(",")}


@pytest.mark.parametrize("machine", ["arm64_v8a", "armeabi_v7a"])
def test_wheels_resolve_for_android(requirements: dict[str, str], tmp_path: Path, machine: str) -> None:
    """pip, allowed wheels for one kind of Android alone, finds every requirement that is no recipe's, and what they need."""
    wanted = [item for name, item in requirements.items() if name not in RECIPES]
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--report", "-",
        "--target", str(tmp_path), "--platform", f"android_24_{machine}", "--python-version", "3.14",
        "--only-binary=:all:", "--retries", "1", "--timeout", "15", "--disable-pip-version-check", *wanted,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["install"]
    names = {item["metadata"]["name"].lower() for item in found}
    assert names == {re.split(r"[=<>]", item)[0] for item in wanted}  # nothing comes along that is not listed
    for item in found:
        wheel = item["download_info"]["url"].rpartition("/")[2]
        assert re.search(r"-(none|py3-none-any|py2\.py3-none-any)[.-]", wheel), wheel


def test_nothing_is_imported_that_is_not_required(requirements: dict[str, str], staged: Path) -> None:
    ours = {path.name for path in staged.iterdir() if path.is_dir()}
    assert ours == {"trimask_mobile", "trimask_client", "trimask_core", "trimask_proto"}
    outside: set[str] = set()
    for path in staged.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                outside |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                outside.add(node.module.partition(".")[0])
    outside -= ours | set(sys.stdlib_module_names)
    # numpy is used where it is installed, and is not missed; `android` comes with python-for-android's bootstrap.
    assert outside - {"numpy", "android"} == set(PROVIDES)
    assert {PROVIDES[name] for name in outside - {"numpy", "android"}} <= set(requirements)
    assert not {"grpcio", "scipy", "pandas", "numpy"} & set(requirements)


def test_permissions_are_the_network_alone(spec: configparser.SectionProxy) -> None:
    assert spec["android.permissions"].split(",") == ["android.permission.INTERNET"]
    assert spec["android.allow_backup"] == "False"
    assert spec["android.archs"].split(", ") == ["arm64-v8a", "armeabi-v7a"]
    assert int(spec["android.minapi"]) == int(spec["android.ndk_api"]) == 24


def test_links_of_given_hosts_open_the_app(tmp_path: Path) -> None:
    folder = tmp_path / "android"
    subprocess.run(
        [ROOT / "scripts" / "stage-android", folder, "survey.example", "other.example"], check=True
    )
    text = (folder / "intent-filters.xml").read_text()
    android = "{http://schemas.android.com/apk/res/android}"
    root = ET.fromstring(f'<r xmlns:android="{android.strip("{}")}">{text}</r>')  # noqa: S314 - our own
    data = [(item.get(f"{android}autoVerify"), item.find("data")) for item in root]
    assert [(verify, dict(found.items())) for verify, found in data if found is not None] == [
        (None, {f"{android}scheme": "trimask"}),
        *(
            ("true", {f"{android}scheme": "https", f"{android}host": host, f"{android}pathPrefix": "/s/"})
            for host in ("survey.example", "other.example")
        ),
    ]


def test_files_the_spec_names_are_staged(spec: configparser.SectionProxy, staged: Path) -> None:
    for name in ("android.manifest.intent_filters", "android.extra_manifest_xml"):
        assert (staged / spec[name]).is_file()
    assert 'android:scheme="trimask"' in (staged / spec["android.manifest.intent_filters"]).read_text()
    # Other tests import what is staged, and Python keeps what it compiled beside it.
    found = [path for path in (staged / "trimask_mobile").rglob("*") if path.is_file()]
    kept = {path.suffix for path in found if path.parent.name != "__pycache__"}
    assert kept == {f".{ext}" for ext in spec["source.include_exts"].split(",")}
    assert not list(staged.rglob("*_pb2_grpc.py"))

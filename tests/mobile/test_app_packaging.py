"""What goes into the Android package: it resolves for Android, asks for nothing it does not need, and it is enough.

No package can be built here (no SDK, no NDK); what can be checked without them is.
"""

from __future__ import annotations

import ast
import configparser
import json
import os
import re
import runpy
import subprocess
import sys
import zlib
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from trimask_android import run_job
from trimask_mobile.theme import COLOURS

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
    ours = {path.name for path in staged.iterdir() if path.is_dir()} - {"art", "java"}
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


def test_no_permission_is_one_that_a_person_is_asked_for(spec: configparser.SectionProxy) -> None:
    """The network; for the job, whether there is one (without which Android 14 refuses it) and the start of the phone."""
    assert spec["android.permissions"].split(", ") == [
        f"android.permission.{name}"
        for name in ("INTERNET", "ACCESS_NETWORK_STATE", "RECEIVE_BOOT_COMPLETED")
    ]
    assert "services" not in spec  # none of python-for-android's, which would need a notification
    assert spec["android.allow_backup"] == "False"
    assert int(spec["android.api"]) == 36
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


MANIFEST = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:android="http://schemas.android.com/apk/res/android" android:versionCode="1">
    {extra}
    <application android:label="@string/app_name" {arguments} >
        <activity android:name="org.kivy.android.PythonActivity">{filters}</activity>
    </application>
</manifest>
"""


def test_the_manifest_that_comes_out(spec: configparser.SectionProxy, staged: Path) -> None:
    """Our pieces where python-for-android's template puts them, then its hook, run twice as buildozer does."""
    manifest_hook = runpy.run_path(os.fspath(staged / spec["p4a.hook"]))
    pieces = {
        "extra": "android.extra_manifest_xml",
        "arguments": "android.extra_manifest_application_arguments",
        "filters": "android.manifest.intent_filters",
    }
    made = MANIFEST.format(**{place: (staged / spec[name]).read_text() for place, name in pieces.items()})
    for _ in range(2):
        made = manifest_hook["with_job"](made)
    android = "{http://schemas.android.com/apk/res/android}"
    root = ET.fromstring(made)  # noqa: S314 - our own
    assert root.find("queries/intent/action") is not None
    assert root.find("application/activity/intent-filter/data") is not None
    [job] = root.findall("application/service")
    assert {name.removeprefix(android): value for name, value in job.items()} == {
        "name": "org.trimask.survey.SendingJob",
        "permission": "android.permission.BIND_JOB_SERVICE",
        "exported": "false",
        "process": ":sending",
    }
    source = staged / spec["android.add_src"] / "org/trimask/survey/SendingJob.java"
    assert "extends JobService" in source.read_text()
    application = root.find("application")
    assert application is not None
    # From 36 on the key "back" comes only to an app that says so, and Kivy goes by that key.
    assert application.get(f"{android}enableOnBackInvokedCallback") == "false"
    rules = application.get(f"{android}dataExtractionRules")
    assert rules == "@xml/" + spec["android.res_xml"].removesuffix(".xml")
    kinds = ET.parse(staged / spec["android.res_xml"]).getroot()  # noqa: S314 - our own
    assert {kind.tag: {item.get("domain") for item in kind} for kind in kinds} == {
        "cloud-backup": {"root", "external"},
        "device-transfer": {"root", "external"},
    }
    with pytest.raises(ValueError, match="template has changed"):
        manifest_hook["with_job"]("<manifest/>")


def rgba(path: Path) -> tuple[int, bytes]:
    """Width and pixels of a PNG of ours: eight bits, RGBA, no filter, one piece."""
    data = path.read_bytes()
    assert data[24:26] == b"\x08\x06"
    size = int.from_bytes(data[33:37], "big")
    return int.from_bytes(data[16:20], "big"), zlib.decompress(data[41 : 41 + size])


def test_icon_and_first_picture(spec: configparser.SectionProxy, staged: Path) -> None:
    """What is committed is what the script draws from the theme; the adaptive icon's figure is where no launcher cuts it."""
    drawn = runpy.run_path(os.fspath(ROOT / "scripts" / "draw_icon.py"))
    names = (
        "icon.filename",
        "icon.adaptive_foreground.filename",
        "icon.adaptive_background.filename",
        "presplash.filename",
    )
    assert {Path(spec[name]).name for name in names} == {path.name for path in (staged / "art").iterdir()}
    width, pixels = rgba(staged / spec["icon.adaptive_foreground.filename"])
    expected = drawn["picture"](432, 0.6, drawn["colour"]("on_primary"), None)
    assert pixels == b"".join(b"\0" + row for row in expected)
    seen = [
        (x - width / 2, y - width / 2)
        for y in range(width)
        for x in range(width)
        if pixels[y * (4 * width + 1) + 4 * x + 4]
    ]
    assert max((x * x + y * y) ** 0.5 for x, y in seen) <= 33 / 108 * width
    width, pixels = rgba(staged / spec["icon.filename"])
    assert width == 512
    assert tuple(pixels[1 + 4 * 256 : 4 + 4 * 256]) == drawn["colour"]("primary")
    assert spec["android.presplash_color"] == COLOURS["ground"]


def test_the_job_runs_from_what_is_staged(staged: Path, tmp_path: Path) -> None:
    """Nothing waits, so it need not come again; the key it has made is wrapped."""
    assert run_job(staged, tmp_path / "files") == "finish False"
    assert (tmp_path / "files" / "device.key.wrapped").is_file()


def test_files_the_spec_names_are_staged(spec: configparser.SectionProxy, staged: Path) -> None:
    for name in ("android.manifest.intent_filters", "android.extra_manifest_xml"):
        assert (staged / spec[name]).is_file()
    assert 'android:scheme="trimask"' in (staged / spec["android.manifest.intent_filters"]).read_text()
    # Other tests import what is staged, and Python keeps what it compiled beside it.
    found = [path for path in (staged / "trimask_mobile").rglob("*") if path.is_file()]
    kept = {path.suffix for path in found if path.parent.name != "__pycache__"}
    assert kept == {f".{ext}" for ext in spec["source.include_exts"].split(",")}
    assert not list(staged.rglob("*_pb2_grpc.py"))

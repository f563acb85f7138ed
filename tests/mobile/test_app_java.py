"""The calls into Java, by pyjnius itself on a JVM. Runs where there are a JDK and pyjnius (the Android workflow has)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_what_is_called_is_there_and_takes_what_it_is_given(tmp_path: Path) -> None:
    """The job compiles as python-for-android compiles it; every call finds its overload; arrays and numbers arrive."""
    if shutil.which("javac") is None or importlib.util.find_spec("jnius") is None:
        pytest.skip("needs a JDK and `pip install pyjnius`")
    classes = tmp_path / "classes"
    sources = [
        *(ROOT / "tests/mobile/android_stand_ins").rglob("*.java"),
        *(ROOT / "mobile/java").rglob("*.java"),
    ]
    subprocess.run(
        ["javac", "-source", "8", "-target", "8", "-d", classes, *sources], check=True, capture_output=True
    )
    done = subprocess.run(
        [sys.executable, ROOT / "tests/mobile/on_a_jvm.py"],
        env={**os.environ, "CLASSES": str(classes)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all held"

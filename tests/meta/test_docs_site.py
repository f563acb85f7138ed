"""The site of `make docs`: it builds without a warning, and its reference has what researchers and developers import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import trimask.fit
import trimask.plot
import trimask.release
import trimask_client

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(target)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return target


@pytest.mark.parametrize(
    ("page", "package", "names"),
    [
        ("fit", "trimask.fit", trimask.fit.__all__),
        ("release", "trimask.release", trimask.release.__all__),
        ("plot", "trimask.plot", trimask.plot.__all__),
        ("client", "trimask_client", trimask_client.__all__),
    ],
)
def test_reference_has_every_public_name(site: Path, page: str, package: str, names: list[str]) -> None:
    text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
    # A name defined elsewhere is documented under its own module: what counts is that its heading is on the page.
    missing = [name for name in names if f'.{name}"' not in text and f">{package}.{name}<" not in text]
    assert not missing


def test_a_page_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("[nowhere](not-here.md)\n")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    head = (
        settings[: settings.index("hooks:")]
        + settings[settings.index("validation:") : settings.index("plugins:")]
    )
    (tmp_path / "mkdocs.yml").write_text(head + "nav:\n  - Start: index.md\n")
    command = [sys.executable, "-m", "mkdocs", "build"]
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert built.returncode != 0
    assert "not-here.md" in built.stderr

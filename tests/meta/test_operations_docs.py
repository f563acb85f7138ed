"""What the documents for operators name exists: tests, settings, metrics, files."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from trimask_server.settings.config import NodeConfig

ROOT = Path(__file__).parents[2]
THREATS = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", THREATS)


def test_every_adversary_has_tests() -> None:
    lines = [line for line in THREATS.splitlines() if line.startswith("| ")]
    rows = [line for line in lines if not line.startswith("| adversary |")]
    assert len(lines) - len(rows) == 2  # a table for what suites share and rows, and one for moments
    assert len(rows) > 25
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells), f"{cells[0]}: an empty cell"
        assert "::" in cells[3], f"{cells[0]}: no test is named"


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_named_in_the_threat_model_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_settings_in_the_documents_exist() -> None:
    known = {item.name for item in fields(NodeConfig)}
    table = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", OPERATIONS, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(table)))
    assert {"http_listen", "keep_closed_days", "rate_limit_burst"} <= named <= known
    example = DEPLOYMENT.split("```toml")[1].split("```")[0]
    assert set(re.findall(r"^(\w+) =", example, re.MULTILINE)) <= known


def test_metrics_in_the_documents_and_alerts_exist() -> None:
    alerts = (ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8")
    named = set(re.findall(r"trimask_[a-z_]+", OPERATIONS.split("Metrics:")[1].split("\n\n")[0] + alerts))
    source = (ROOT / "server" / "trimask_server" / "operations" / "metrics.py").read_text(encoding="utf-8")
    known = set(re.findall(r'"(trimask_[a-z_]+)"', source))
    assert {metric.removesuffix("_total").removesuffix("_bucket") for metric in named} <= known


def test_the_unit_stops_within_what_systemd_allows() -> None:
    from trimask_server.operations.signals import GRACE_SECONDS

    unit = (ROOT / "deploy" / "trimask@.service").read_text(encoding="utf-8")
    allowed = int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    assert allowed > GRACE_SECONDS

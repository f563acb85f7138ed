"""What documents name exists: tests, settings, metrics, extras, benchmarks."""

from __future__ import annotations

import ast
import json
import re
import runpy
import tomllib
from dataclasses import fields
from pathlib import Path

from trimask_core.basics.refusals import Alarm, Reason
from trimask_server.settings.config import NodeConfig

ROOT = Path(__file__).parents[2]
THREATS = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
DEPLOYMENT = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
OVERVIEW = (ROOT / "docs" / "security-overview.md").read_text(encoding="utf-8")
ATTACKS = (ROOT / "tests" / "attacks" / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", THREATS + ATTACKS + OVERVIEW)


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


def test_every_attack_has_a_test_in_both_states() -> None:
    rows = [line for line in ATTACKS.splitlines() if line.startswith("| ") and "::" in line]
    assert len(rows) >= 19
    for row in rows:
        name, on, off = (cell.strip() for cell in row.strip("|").split("|"))
        assert name
        assert "::" in on
        assert "::" in off or "the same test" in off


def test_every_test_named_in_the_documents_exists() -> None:
    assert len(NAMED) > 100
    missing = []
    for file in sorted({file for file, _ in NAMED}):
        path = ROOT / "tests" / file
        body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
        there = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        missing += [f"{file}::{name}" for of, name in NAMED if of == file and name not in there]
    assert missing == []


def test_every_answer_for_the_officer_can_be_checked() -> None:
    """Each row that answers something ends with tests (held above) or with lines of files, which are there."""
    tables = [line for part in OVERVIEW.split("## ")[2:5] for line in part.splitlines() if line[:2] == "| "]
    rows = [line for line in tables if not line.endswith("| check |")]
    assert len(rows) == len(tables) - 3 > 30
    for row in rows:
        pointers = re.findall(r"`([^`]+)`", row.strip("|").rpartition("|")[2])
        assert pointers, row
        for pointer in pointers:
            file, within, text = pointer.partition("#")
            assert "::" in pointer or (within and text in (ROOT / file).read_text(encoding="utf-8")), pointer


def test_reference_pages_are_what_the_code_reads() -> None:
    pages = runpy.run_path(str(ROOT / "scripts" / "reference_pages.py"))["pages"]()
    assert len(pages) == 4
    old = [name for name, text in pages.items() if (ROOT / "docs" / name).read_text(encoding="utf-8") != text]
    assert old == [], "python scripts/reference_pages.py"


def test_settings_of_the_example_exist() -> None:
    known = {item.name for item in fields(NodeConfig)}
    example = DEPLOYMENT.split("```toml")[1].split("```")[0]
    assert set(re.findall(r"^(\w+) =", example, re.MULTILINE)) <= known


def test_extras_in_the_documents_exist() -> None:
    named: set[tuple[str, str]] = set()
    for page in _documents():
        for distribution, extras in re.findall(r"(trimask(?:-\w+)?|(?<=\./)\w+)\[([\w, ]+)\]", page):
            named |= {(distribution, extra.strip()) for extra in extras.split(",")}
    known: set[tuple[str, str]] = set()
    for path in ROOT.glob("*/pyproject.toml"):
        project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
        for extra in project.get("optional-dependencies", {}):
            known |= {(project["name"], extra), (path.parent.name, extra)}
    assert ("trimask-server", "postgres") in named
    assert named <= known


def test_benchmarks_in_the_documents_exist() -> None:
    named = {word for page in _documents() for word in re.findall(r"python -m bench([ .][^`\n]*)?`", page)}
    source = (ROOT / "bench" / "__main__.py").read_text(encoding="utf-8")
    assert any("--only" in word for word in named)
    for word in named:
        if word.startswith("."):
            assert (ROOT / "bench" / f"{word[1:].split()[0]}.py").is_file(), word
        elif word:
            assert word.startswith(" --"), word  # benchmarks are chosen by --only
            for name in re.findall(r"--only ([\w ]+)", word):
                assert all(f'"{one}":' in source for one in name.split()), word


def _documents() -> list[str]:
    paths = [*ROOT.glob("*.md"), *ROOT.glob("*/README.md"), *(ROOT / "docs").rglob("*.md")]
    return [path.read_text(encoding="utf-8") for path in paths if path.name != "CHANGELOG.md"]


def test_metrics_in_the_documents_alerts_and_dashboard_exist() -> None:
    """And each one there is, is in the list and on the dashboard."""
    alerts = (ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8")
    dashboard = json.loads((ROOT / "deploy" / "grafana.json").read_text(encoding="utf-8"))
    listed = OPERATIONS.split("Metrics:")[1].split("\n\n")[0]
    shown = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    runtime = ROOT / "server" / "trimask_server" / "runtime"
    source = "".join((runtime / name).read_text("utf-8") for name in ("metrics.py", "http_port.py"))
    known = set(re.findall(r'"(trimask_[a-z_]+)"', source))
    assert _metrics(alerts) <= known
    assert _metrics(listed) == _metrics(shown) == known
    told = " ".join(panel.get("description", "") for panel in dashboard["panels"])
    assert set(re.findall(r"Trimask\w+", told)) <= set(re.findall(r"alert: (\w+)", alerts))


def _metrics(text: str) -> set[str]:
    """The metrics that a text names, without what Prometheus adds to a name."""
    return {re.sub("_(total|bucket|sum|count)$", "", name) for name in re.findall(r"trimask_[a-z_]+", text)}


def test_every_alert_and_refusal_of_a_node_has_its_line_in_the_runbook() -> None:
    alerts = (ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8")
    runbook = OPERATIONS.split("## Alerts and refusals")[1].split("\n## ")[0]
    names = re.findall(r"alert: (\w+)", alerts)
    assert len(names) == alerts.count("expr:") == alerts.count("summary:") == 11
    assert re.findall(r'runbook: "docs/operations.md#(\w+)"', alerts) == [name.lower() for name in names]
    assert re.findall(r'^\| <a id="(\w+)"></a>`(\w+)` \|', runbook, re.MULTILINE) == [
        (name.lower(), name) for name in names
    ]
    known = {str(item) for item in (*Reason, *Alarm)}
    in_alerts = {word for words in re.findall(r'reason=~?"([\w|]+)"', alerts) for word in words.split("|")}
    rows = [line.partition(": ")[0] for line in runbook.splitlines() if line.startswith("- `")]
    told = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert in_alerts <= told <= known
    # What is not the request's fault but a node's, or its peer's.
    of_nodes = {"UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "DEADLINE_EXCEEDED", "INTERNAL"}
    assert {str(item) for item in Reason if item.status.name in of_nodes} | {
        str(item) for item in Alarm
    } <= told


def test_the_unit_stops_within_what_systemd_allows() -> None:
    from trimask_server.programs.roles import GRACE_SECONDS

    unit = (ROOT / "deploy" / "trimask@.service").read_text(encoding="utf-8")
    allowed = int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    assert allowed > GRACE_SECONDS

"""The alerts and the dashboard, asked of a Prometheus that watches real nodes. Slow: it needs `prometheus` of Debian."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Client
from trimask_patience import patience, until
from trimask_server.local.cluster import free_base_port

DEPLOY = Path(__file__).parents[2] / "deploy"
PANELS = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
# What has nothing to say of nodes to which nothing happens.
QUIET = {
    "Attempts, rows erased, studies forgotten",
    "Blocks, by state",
    "Refusals a second, by reason",
    "Reloads of key files",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus here"),
]


@pytest.fixture
def prometheus(ops_lab: Any, tmp_path: Path) -> Iterator[Callable[[str], list[Any]]]:
    """Watches every node of the lab; a function that asks it."""
    addresses = [ops_lab.http(name).removeprefix("http://") for name in ops_lab.parties]
    settings = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(DEPLOY / "alerts.yaml")],
        "scrape_configs": [{"job_name": "trimask", "static_configs": [{"targets": addresses}]}],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(settings))  # YAML holds JSON
    where = f"127.0.0.1:{free_base_port(1)}"
    command = [
        "prometheus",
        f"--config.file={tmp_path / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address={where}",
    ]

    def ask(path: str) -> Any:
        with urllib.request.urlopen(f"http://{where}/api/v1/{path}", timeout=patience(10)) as answer:
            return json.loads(answer.read())["data"]

    def query(expression: str) -> list[Any]:
        found: list[Any] = ask("query?" + urllib.parse.urlencode({"query": expression}))["result"]
        return found

    def watched() -> bool:
        try:
            return len(query("count_over_time(trimask_ready[1m]) > 2")) == len(addresses)
        except OSError:
            return False

    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
        until(watched)
        query.rules = ask("rules")["groups"]  # type: ignore[attr-defined]
        yield query
        running.terminate()


def test_every_panel_shows_what_nodes_say_and_no_rule_is_wrong(ops_lab: Any, prometheus: Any) -> None:
    (group,) = prometheus.rules
    assert {rule["name"] for rule in group["rules"] if rule.get("lastError")} == set()
    assert len(group["rules"]) == 11
    signed = ops_lab.open_study("On a dashboard")
    with Client(signed) as client:
        for hour in range(9):
            client.submit({"hours": hour, "rested": True})
    for metric in ('requests_total{rpc="SubmissionService/Submit"}', "peer_calls_total"):
        until(lambda counted=metric: bool(prometheus(f"rate(trimask_{counted}[1m]) > 0")))
    empty = set()
    for panel in PANELS:
        for target in panel["targets"]:
            assert "$node" in target["expr"], panel["title"]
            expression = target["expr"].replace("$node", ".*").replace("$__rate_interval", "1m")
            found = prometheus(expression)  # one that is no query is an error
            if not found:
                empty.add(panel["title"])
            for label in re.findall(r"{{(\w+)}}", target["legendFormat"]):
                assert all(label in one["metric"] for one in found), (panel["title"], label)
    assert empty <= QUIET

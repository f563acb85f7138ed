"""The catalogue of refusals against the source: every reason given is listed, every reason listed is given."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from trimask_core.basics.refusals import REASON_KEY, RETRY_KEY, Alarm, Reason, Status

ROOT = Path(__file__).parents[2]
CATALOGUE = "trimask_core/basics/refusals.py"
LISTED = {str(member): member for member in (*Reason, *Alarm)}
# Modules that answer a participant's device, whatever folder they are in; what they refuse needs words for a person.
FOR_DEVICES = {
    "submissions.py",
    "row_intake.py",
    "sealing_keys.py",
    "inbound_limits.py",
    "interceptors.py",
    "trimask_client",
}


@cache
def texts() -> dict[str, str]:
    """Every module of every package by its path, the generated ones aside."""
    found = {}
    for init in ROOT.glob("*/trimask*/__init__.py"):
        for path in init.parent.rglob("*.py"):
            name = path.relative_to(init.parents[1]).as_posix()
            if not path.name.endswith(("_pb2.py", "_pb2_grpc.py")) and init.parents[1].name != "tests":
                found[name] = path.read_text(encoding="utf-8")
    return found


@cache
def sources() -> dict[str, ast.Module]:
    """The same, parsed."""
    return {name: ast.parse(text) for name, text in texts().items()}


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module; walking it is most of the time."""
    return tuple(ast.walk(tree))


def text_of(node: ast.expr | None) -> str | None:
    """The reason that `Reason.X` or `Alarm.X` names."""
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("Reason", "Alarm")
    ):
        return node.attr.lower()
    return None


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and attributes; of anything else, what follows it. Unparsing every call took ten seconds."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def named(node: ast.expr, endings: tuple[str, ...]) -> bool:
    return dotted(node).endswith(endings)


def given(tree: ast.Module) -> Iterator[tuple[ast.expr, str | None]]:
    """Every expression that is given as a reason: to `Refused`, to a counter, to the collector, to a caller."""
    for node in nodes(tree):
        value: ast.expr | None = None
        if (
            isinstance(node, ast.Call)
            and node.args
            and named(node.func, ("Refused", "refusals.count", "pending.fail"))
        ):
            value = node.args[0]
        elif isinstance(node, ast.Call) and named(node.func, ("ReportFailureRequest",)):
            value = next((item.value for item in node.keywords if item.arg == "reason"), None)
        elif isinstance(node, ast.IfExp) and named(node.body, (".reason",)):
            value = node.orelse
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Attribute) and text_of(node.value):
            value = node.value
        if value is not None:
            yield value, text_of(value)


def compared(tree: ast.Module) -> Iterator[str]:
    """The reasons that code looks for."""
    for node in nodes(tree):
        if isinstance(node, ast.Compare) and named(node.left, (".reason",)):
            for right in node.comparators:
                members = right.elts if isinstance(right, (ast.Tuple, ast.Set, ast.List)) else [right]
                for member in members:
                    text = ast.literal_eval(member) if isinstance(member, ast.Constant) else text_of(member)
                    if text is not None:
                        yield text


@cache
def places() -> dict[str, set[str]]:
    """The modules that give each reason."""
    found = defaultdict(set)
    for name, tree in sources().items():
        if name != CATALOGUE:
            for _, text in given(tree):
                if text is not None:
                    found[text].add(name)
    return found


def test_every_reason_given_is_listed() -> None:
    assert len(sources()) > 150
    assert not {text: where for text, where in places().items() if text not in LISTED}


def test_every_reason_listed_is_given() -> None:
    assert {text for text in LISTED if not places().get(text)} == set(), "listed, and nobody refuses for it"


def test_every_reason_looked_for_is_listed() -> None:
    """Or is a status's name, which stands for a reason where a node gave none; that alone is written as text."""
    known = {*LISTED, *(status.name.lower() for status in Status)}
    found = {text for tree in sources().values() for text in compared(tree)}
    assert {"unknown_study", "lease_lost"} <= found <= known


def test_a_reason_is_computed_in_few_places() -> None:
    """Everything but a member: a reason that came over the wire, is passed on, or is that of a store that is ill."""
    odd = {
        ast.unparse(node)
        for name, tree in sources().items()
        if name != CATALOGUE
        for node, text in given(tree)
        if text is None
    }
    assert {item for item in odd if not item.startswith("read_reason(")} <= {
        "reason", "error.reason", "attempt_counter(reason)", "reason_of_failure(error)",
    }, odd  # fmt: skip


def test_what_a_device_may_meet_has_words_for_the_person() -> None:
    seen = set()
    for text, where in places().items():
        for name in where:
            parts = FOR_DEVICES & {name.split("/")[0], name.rsplit("/", 1)[-1]}
            seen |= parts
            member = LISTED[text]
            assert not parts or not isinstance(member, Reason) or member.told, f"{text} has no texts ({name})"
    assert seen == FOR_DEVICES, "a module was renamed: name the one that answers devices now"


def test_a_key_of_the_metadata_is_written_once() -> None:
    keys = (REASON_KEY, RETRY_KEY)
    found = [
        (name, key) for name, text in texts().items() for key in keys if re.search(rf"[\"']{key}[\"']", text)
    ]
    assert sorted(found) == sorted((CATALOGUE, key) for key in keys)


# The general answers to whoever called, as `malformed` is to a bad field: the message says what. And one that a researcher's
# own program branches on, since it asks until the budget is spent (docs/releases.md). No more than these.
GENERAL = {"malformed", "bad_question", "not_yet", "unknown_name", "budget_spent"}


def looked_for(tree: ast.Module) -> set[str]:
    """The reasons that code branches on: compared with, or members of a set that a module keeps for that."""
    kept = {
        text_of(member)
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Set, ast.Tuple, ast.Dict))
        for member in ast.walk(node.value)
        if isinstance(member, ast.Attribute)
    }
    return {text for text in {*compared(tree), *kept} if text}


def test_a_reason_of_its_own_is_one_that_something_depends_on() -> None:
    """Code branches on it, an alert or an operator's page counts it, or a participant is told something else for it."""
    branched = set().union(*(looked_for(tree) for name, tree in sources().items() if name != CATALOGUE))
    runbook = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    acted_on = set(re.findall(r"`(\w+)`", runbook.split("## Alerts and refusals")[1].split("\n## ")[0]))
    words = Counter(item.told for item in Reason if item.told)
    alone = {
        str(item)
        for item in Reason
        if words[item.told] != 1 and str(item) not in branched and str(item) not in acted_on
    }
    assert alone == GENERAL


def test_what_an_alert_counts_is_a_reason() -> None:
    """A reason that is renamed or folded would silence its alert."""
    rules = (ROOT / "deploy" / "alerts.yaml").read_text(encoding="utf-8")
    counted = {
        text
        for found in re.findall(r"reason=~?\"([^\"]+)\"", rules)
        for text in found.split("|")
        if "*" not in text
    }
    assert {"store_unavailable", "tampered_component"} <= counted <= set(LISTED)

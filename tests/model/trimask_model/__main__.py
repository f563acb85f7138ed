"""Every model whole, then without each of its rules: `make model`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from trimask_model import closing, moments, rows
from trimask_model.explorer import Model, explore


def _look(name: str, make: Callable[[], Model[Any]], wanted: str | None) -> bool:
    start = time.process_time()
    found = explore(make())
    right = found.broken == wanted
    print(
        f"{'ok ' if right else 'NOT'} {name} [{time.process_time() - start:.1f} s]\n    {found}", flush=True
    )
    return right


def main(arguments: list[str]) -> int:
    """0 if every property holds, and breaks without the rules it rests on."""
    parser = argparse.ArgumentParser(prog="python -m trimask_model", description=__doc__)
    parser.add_argument(
        "--people", type=int, default=2, help="how many people are in a moments study (%(default)s)"
    )
    people = parser.parse_args(arguments).people
    right = [
        _look(f"moments, {people} people", lambda: moments.model(people), None),
        _look(f"rows, {people + 1} people", lambda: rows.model(people + 1), None),
        _look(f"closing, {people + 1} people", lambda: closing.model(people + 1), None),
    ]
    for rule, wanted in moments.RULES.items():
        make = lambda rule=rule: moments.model(2, rule, there=True)  # noqa: E731
        right.append(_look(f"moments without: {rule}", make, wanted))
    for rules, wanted in rows.RULES.items():
        make = lambda rules=rules: rows.model(2, rules)  # noqa: E731
        right.append(_look(f"rows without: {' and: '.join(rules)}", make, wanted))
    for rule, wanted in closing.RULES.items():
        make = lambda rule=rule: closing.model(2, rule)  # noqa: E731
        right.append(_look(f"closing without: {rule}", make, wanted))
    print(f"{sum(right)} of {len(right)} as they should be")
    return int(not all(right))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

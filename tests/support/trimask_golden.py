"""What refusals say to people, kept apart from what they are: one file of sentences a surface, in tests/golden."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


class Golden:
    """Holds sentences to those in tests/golden; `pytest --golden` writes them as they are said now, to be reviewed."""

    def __init__(self, *, write: bool) -> None:
        self._write = write

    def __call__(
        self, surface: str, error: type[Exception], cases: Mapping[str, tuple[str, Callable[[], object]]]
    ) -> None:
        """Every case is refused by its reason, parameter or attribute (or has that in its words), in its sentence."""
        said: dict[str, str] = {}
        wrong = []
        for case, (field, call) in cases.items():
            try:
                call()
            except error as caught:
                said[case] = str(caught)
                told = [getattr(caught, name, None) for name in ("reason", "parameter", "attribute")]
                if field not in told and field not in said[case]:
                    wrong.append(f"{case}: {field!r} is not what it is refused by: {said[case]}")
            else:
                wrong.append(f"{case}: was taken")
        assert wrong == []
        path = FOLDER / f"{surface}.json"
        if self._write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        assert said == json.loads(path.read_text(encoding="utf-8")), (
            "pytest --golden writes them, if that is meant"
        )

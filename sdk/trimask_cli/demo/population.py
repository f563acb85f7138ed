"""Whom the demo asks: the bundled study's simulated people, or the user's own file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from trimask_core.errors import AnswerError, ConfigError
from trimask_core.schema import Schema

__all__ = ["Answers", "blood_pressure_population", "read_rows"]

Answers = dict[str, object]


def blood_pressure_population(count: int, seed: int) -> list[Answers]:
    """Answers to the bundled study from a made-up town whose true coefficients the demo should find again."""
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 81, count)
    bmi = np.clip(rng.normal(26, 4, count), 16, 42)
    salt = np.clip(rng.gamma(9, 1.0, count), 2, 18)
    smoker = rng.random(count) < 0.25
    activity = rng.choice(["low", "medium", "high"], count, p=[0.4, 0.4, 0.2])
    effect = {"low": 0.0, "medium": -3.0, "high": -6.0}
    mean = 72 + 0.55 * age + 0.75 * bmi + 0.9 * salt + 6.0 * smoker + np.array([effect[a] for a in activity])
    systolic = np.clip(np.rint(mean + rng.normal(0, 8, count)), 90, 180)
    return [
        {
            "systolic": int(systolic[i]),
            "age": int(age[i]),
            "bmi": float(round(bmi[i], 1)),
            "salt": float(round(salt[i], 1)),
            "smoker": bool(smoker[i]),
            "activity": str(activity[i]),
        }
        for i in range(count)
    ]


def read_rows(path: Path, schema: Schema) -> list[Answers]:
    """Answers from a CSV whose header names the attributes; the first line that does not fit is named."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        wanted = [attribute.name for attribute in schema.attributes]
        missing = [name for name in wanted if name not in (reader.fieldnames or [])]
        if missing:
            raise ConfigError(
                f"{path}: there is no column {missing[0]}; the study asks for {', '.join(wanted)}"
            )
        people: list[Answers] = []
        for line in reader:
            answers: Answers = {name: line[name] for name in wanted}
            try:
                schema.encode(answers)
            except AnswerError as error:
                raise ConfigError(f"{path}, line {reader.line_num}: {error}") from None
            people.append(answers)
    if not people:
        raise ConfigError(f"{path} has no rows")
    return people

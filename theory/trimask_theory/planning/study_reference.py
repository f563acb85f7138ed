"""Every key of a study's TOML file, in words. `python -m trimask_theory.planning.study_reference` writes docs/study-file.md.

Which keys there are, their types and defaults come from the classes that the file is read into, and which suite has a key
from `study_definition`; only the words are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from trimask_core.form.file import ELIGIBILITY_KEYS, FORM_KEYS
from trimask_core.form.question import Choice, GridRow, Question
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
    bool: "true or false",
    int: "whole number",
    float: "number",
    Texts: "text, or one a language",
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
            only = f" Only in the {'moments' if foreign == ['rows'] else 'rows'} suite." if foreign else ""
            yield name, shown, default, self.words[name] + only

    def table(self) -> str:
        """The section of the page."""
        about = f"\n{self.about}\n" if self.about else ""
        lines = ["| key | value | default | what it does |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {shown} | {default} | {what} |" for key, shown, default, what in self.rows()]
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
        "Who asks what, and why. It is shown to everybody who is asked to take part, or to approve.",
        {
            "title": "What the study is called.",
            "purpose": "What the answers are for, in a sentence.",
            "contact": "Where participants and parties turn to.",
            "ones": "A column of ones. Means and the intercept need it; the moments suite always has it.",
            "licence": "Under which licence releases may be used.",
            "web": "Taking part from a browser too ([web.md](web.md)); from the app alone when left out.",
            "privacy": "The guarantee.",
            "collection": "How answers are collected and published.",
            "attributes": "What people are asked, one table each; one at least.",
            "derived": "Columns that the device forms of answers, one table each.",
            "weight": "How much each person's answers count; all count the same without it.",
            "form": "What people are shown, in every language; a plain form is made of the attributes without it.",
            "expected": "What is expected of the answers, for `trimask plan --study`; no part of the study.",
        },
        keys=TOP_KEYS,
        given={
            "title": _NAME,
            "purpose": _NAME,
            "contact": _NAME,
            "ones": ("true or false", "`true`"),
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
            "protect": "What may change without being noticed: a person's whole row, or a row's move by 1 (scaled).",
            "method": "How the noise is found: the sharp calculation, a rule without an integral (more noise), or the "
            "published theorem's bound (most).",
            "exact": "Publish without noise, and without differential privacy. Leave epsilon and delta out then.",
            "row_norm": "Longer rows are shrunk to this norm on the device: less noise, some bias. `trimask plan --study` "
            "recommends one.",
            "budget": "Publish nothing; give private answers until this is spent.",
            "certified": "Enclose delta between two numbers in ball arithmetic, and state them in the study (`sharp`; "
            "seconds, or a minute with `unit`; needs `pip install 'trimask-theory[certified]'` where the study is made).",
            "honest_providers": "h: any h right providers who add their noise give the guarantee; 1 when left out.",
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
            "mu": "In all, as Gaussian differential privacy.",
        },
        Budget,
    ),
    Section(
        "`[collection]`",
        "",
        {
            "suite": "The way of collecting (docs/suites.md).",
            "release_rows": "N: people published together, at least. More mean less noise.",
            "block_rows": "n: rows masked together, more than a row has columns. Required in the rows suite.",
            "noise_columns": "Columns of noise that hide a block; a safe number when left out.",
            "share_leakage": "How far apart what a right provider holds may be for two rows.",
            "obfuscation_failure": "Probability that the noise columns are too small.",
            "unmasking": 'Who unmasks R1, R2, ..., such as ["R2", "R3", "R1"]; a ring when left out.',
            "admission": "`open`: anybody with the study; `invited`: only with an invitation.",
            "admission_signer": "Who signs invitations: `owner`, the default where people are invited, or a right "
            "provider, such as `R1`; never the collector.",
            "reminders": "Whether right providers tell the owner which invitations were used, to remind the others "
            "(`trimask study invitations`). People are told that whoever invited them can see that they answered.",
            "access": "`public`: anybody may fetch releases; `token`: only with a token.",
        },
        CollectionPlan,
        suite_section="collection",
    ),
    Section(
        "`[web]`",
        "Taking part from a browser: every party signs who may show the page, and what page it is ([web.md](web.md)).",
        {
            "hosts": 'The origins that may show it, as ["https://survey.example"]: whoever runs one could change the page '
            "and read the answers given there, so preferably not the collector's. http://localhost is for trying out.",
            "page_sha256": "The hash of the page's files, as `trimask web check` prints it.",
        },
        Web,
    ),
    Section(
        "`[[attributes]]`",
        "One question's answer as a number or a level. An answer outside its bounds is refused on the device.",
        {
            "name": "A letter, then letters, digits and `_`.",
            "kind": "A real number, a whole number, yes or no, or one of some levels.",
            "minimum": "The least answer. Required for numbers, forbidden otherwise; wide bounds mean more noise.",
            "maximum": "The greatest answer, likewise.",
            "levels": "What one chooses from; required for categorical.",
            "label": "The question in words, for the plain form and reports.",
            "unit": "The unit of a number.",
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
            "kind": "The square or the natural logarithm of a number; a threshold of it (1 from its cut on, 0 below) or "
            "bins (one column an interval, like the levels of a choice); or a product of two.",
            "of": "What it is formed of: an attribute; for a product two of attributes, levels (`region_north`) and derived "
            "columns above it. A choice times a number has one column a level, a choice times a choice one a pair.",
            "cuts": "Of bins, going up, or the one of a threshold: intervals begin at their cut and end below the next.",
            "levels": "Names of the bins, one more than cuts; `below_40`, `40_to_65`, `from_65` when left out.",
        },
        Derived,
    ),
    Section(
        "`[weight]`",
        "How much each person's answers count: devices multiply their rows by the root of the weight, so every mean, share "
        "and regression of a release is a weighted one ([weights](researchers-reference.md#survey-weights)). Signed with "
        "the study; people are told. Only the ratios of weights matter.",
        {
            "attribute": "A numeric attribute with a minimum above 0, whose answer is the weight; or a categorical "
            "attribute or bins.",
            "weights": "Of a choice or bins: a table with a number above 0 for each level, such as "
            "`{north = 1.0, south = 2.5}`.",
        },
        keys=WEIGHT_KEYS,
        given={"attribute": _NAME, "weights": ("table of numbers", "")},
    ),
    Section(
        "`[[expected.columns]]`",
        "From public knowledge, an earlier study or a pilot, never from this study's own answers. What is left out is taken "
        "as uncorrelated and spread over the middle of its bounds.",
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
        "What people see; [forms.md](forms.md) explains it with an example.",
        {
            "languages": 'Such as ["en", "de"]; the first is the default.',
            "title": "Above the form.",
            "purpose": "What the answers are for, in each language; the study's own `purpose` where it is not given.",
            "intro": "Below the title.",
            "consent": "The table `[form.consent]`: `version` and `text`.",
            "eligibility_first": "Whether eligibility is asked before the consent is shown.",
            "eligibility": "Questions that decide who takes part; their answers never leave the device.",
            "questions": "The questions, in their order. Every attribute is filled by one.",
        },
        keys=FORM_KEYS,
        given={
            "languages": ("list of texts", "required"),
            "title": ("text, or one a language", ""),
            "purpose": ("text, or one a language", ""),
            "intro": ("text, or one a language", ""),
            "consent": ("table", ""),
            "eligibility_first": ("true or false", "`false`"),
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
            "help": "More words about it.",
            "unit": "Of a number.",
            "eligible": "Of yes_no: the answer that lets a person take part.",
            "minimum": "Of a number: who answers within the limits takes part.",
            "maximum": "Likewise.",
        },
        keys=ELIGIBILITY_KEYS,
        given={
            "name": _NAME,
            "kind": ("one of these", "required"),
            "label": ("text, or one a language", "required"),
            "help": ("text, or one a language", ""),
            "unit": ("text, or one a language", ""),
            "eligible": ("true or false", "`true`"),
            "minimum": ("number", ""),
            "maximum": ("number", ""),
        },
    ),
    Section(
        "`[[form.questions]]`",
        "",
        {
            "name": "The attribute it fills (of multiple_choice: `NAME_VALUE` for each choice; of a grid: by its rows).",
            "kind": "How it is asked; a `heading` is a title and a note, and is not.",
            "label": "The question.",
            "help": "More words about it.",
            "unit": "Of a number.",
            "required": "Whether it must be answered; if not, give `missing`.",
            "relevant": 'When it is asked, such as `"smoker = yes"`; then give `missing`.',
            "message": "Said when an answer is outside the limits.",
            "minimum": "The attribute's when left out, and within it.",
            "maximum": "Likewise.",
            "step": "Of a slider.",
            "choices": "Of choices and grids: tables with `value` and `label`.",
            "rows": "Of a grid: tables with `name` and `label`.",
            "count": "Of a date: days or years after `origin`, or whole years at `origin`. Of a time: minutes or hours.",
            "origin": "Of a date: a date, or `creation`. Of a time: a time; 00:00 if not given.",
            "earliest": "Of a date or a time.",
            "latest": "Likewise.",
            "missing": "What stands in the row when there is no answer, since a row has no empty cells.",
            "missing_indicator": "A binary attribute that says which rows it stands in.",
        },
        Question,
    ),
    Section(
        "`choices`",
        "",
        {
            "value": "The level of the attribute.",
            "label": "What a person reads.",
            "exclusive": "Of multiple_choice: cannot be chosen with another, such as none of these.",
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

Every key of a study's definition (TOML), written by `python -m trimask_theory.planning.study_reference` from what
reads the file; a
test holds this page to it. A key that is not here is refused with the nearest one that is. `trimask study example` prints a
whole file, `trimask study from-csv DATA.csv` drafts one from a table, `trimask study new` makes a study of it.
"""
_OWN_TABLE = """## Your own table

`trimask study from-csv DATA.csv --out my.toml` drafts a definition: each column's kind, bounds rounded outward, levels, and
a form where something has to stand for empty cells, or where levels lost a sign that people should read (`<18`).
Identifiers, dates and free text are left out, with the reason. Edit it.
`trimask demo --study my.toml --rows DATA.csv` then runs it, and `trimask plan --study my.toml --pilot DATA.csv` says what it
will show.

- Read are UTF-8, UTF-16 and Latin-1 (Windows-1252), commas, semicolons, tabs and `|`, Excel's `sep=;`, decimal commas.
  Marks between thousands are not: 12.345 in a file with decimal commas is refused, because it may be 12345.
- Columns go by the attribute's name, or by a header whose letters and digits make it (`Body mass (kg)` for `Body_mass_kg`);
  other columns are left out. `3.0` is 3, `0.0` and `1.0` are no and yes, `very good` is the level `very_good`.
- A question of several choices is one column a choice, or one column with the chosen values and blanks between them; a date
  is written year-month-day, or is the attribute's number already.
- Empty, `NA`, `NaN`, `null` and `None` are no answer: the form's `missing` stands in the row, or it is a problem.
- What does not fit is listed at once, up to twenty, with line, column and value.
"""


def render_page() -> str:
    """docs/study-file.md."""
    return "\n".join([_HEAD, *(section.table() for section in SECTIONS), _OWN_TABLE])


if __name__ == "__main__":
    print(render_page(), end="")

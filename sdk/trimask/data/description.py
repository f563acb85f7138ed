"""A dataset in words: `repr`, the summary that `print` gives, a citation, and what goes along with its files.

That is notes in a file's or frame's metadata, a README, and a recipe in R.

The recipe is classical: least squares with known noise on every column, S its covariance in a row. With G = Y^T Y - n S,
    b = G_xx^-1 G_xy,   theta = (1, -b) on (y, x),   v = theta^T G theta / (n - k) + theta^T S theta,
    V = v G_xx^-1 + n G_xx^-1 (v S_xx + u u^T) G_xx^-1,   u = S_x. theta
(Fuller, Measurement Error Models, 1987, section 2.2; the mask is orthogonal, so Y^T Y is that of unmasked noisy rows).
First order in the noise, and without what the schema knows: `trimask.fit` has both, and smaller errors.

It is cited by BibTeX with its id, the hash that names it, its guarantee, and the program that read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from trimask.data.manifest import Manifest
from trimask.moments.moments import ClippedShare, Units
from trimask_core.submit.release_files import (
    DERIVED,
    INTERCEPT,
    NOT_PEOPLE,
    noise_shape,
    row_notes,
    weight_note,
)

_IS_AND_IS_NOT = """\
  is      second moments: sums, means, variances, covariances, and every model made of them, such as
          least squares and principal components, on the columns the study declared
  is not  people. Rows are not people: each mixes all rows of the release, so no row stands for anybody,
          and order and single values mean nothing. Nothing nonlinear (a filter, a square, a logarithm,
          a count of values) can be computed from them"""
_MOMENTS_ARE = """\
  is      second moments: sums, means, variances, covariances, and every model made of them, such as
          least squares and principal components, on the columns the study declared
  is not  rows. None were published; those that to_pandas and the exports make are derived from the
          moments, and nothing nonlinear can be computed from them"""
_SUITES = {
    "rows": "rows (masked rows are published)",
    "moments": "moments (noisy totals, summed in shares, are published)",
}


def one_line(manifest: Manifest) -> str:
    """Which release it is, how large, and of which suite."""
    word = "; rows are not people" if manifest.suite == "rows" else ""
    return f"{_head(manifest)}; suite {manifest.suite}{word}"


def summary(manifest: Manifest, clipped: ClippedShare | None, effective: int) -> str:
    """The same with columns, noise and guarantee, and what the release is and is not.

    `effective` is how many people a weighted release is worth.
    """
    guarantee = manifest.guarantee("public")
    promise = "none: exact mode, masked without differential privacy" if guarantee is None else str(guarantee)
    lines = [
        f"Dataset {_head(manifest)}",
        f"  suite   {_SUITES[manifest.suite]}",
        f"  columns {', '.join(column.name for column in manifest.columns)}",
        f"  noise   sigma = {manifest.sigma:.4g} in scaled units",
        f"  promise {promise}",
        _IS_AND_IS_NOT if manifest.suite == "rows" else _MOMENTS_ARE,
    ]
    if together := sent_together(manifest):
        lines.insert(2, f"  people  {together}")
    weight = manifest.study.weight
    if weight is not None:
        by = weight.words(manifest.study.schema)
        lines.insert(3, f"  weights by {by}; {effective:,} of {manifest.rows:,} people in effect")
    if clipped is not None:
        lines.insert(3, f"  clipped {clipped} of rows were shrunk to the study's ball")
    return "\n".join(lines)


def _head(manifest: Manifest) -> str:
    day = datetime.fromtimestamp(manifest.published_ms / 1000, UTC).date().isoformat()
    size = f"{manifest.rows:,} rows x {len(manifest.columns)} columns"
    if manifest.suite == "moments":
        size = f"moments of {len(manifest.columns)} columns over {manifest.rows:,} people"
    return f"{manifest.dataset_id}: {manifest.title}, {size}, published {day}"


_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def version() -> str:
    """The version of this package, as installed."""
    return metadata.version("trimask")


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def bibtex(manifest: Manifest, note: str = "") -> str:
    """One entry; `note` is put before what identifies the dataset."""
    study, promise = manifest.study, manifest.guarantee("public")
    when = datetime.fromtimestamp(manifest.published_ms / 1000, UTC)
    held = "no differential privacy (exact mode)" if promise is None else str(promise)
    author = study.collector.organisation or study.contact or "unknown"
    said = (
        f"{note} Dataset {manifest.dataset_id} of study {manifest.study_id}. Manifest SHA-256 {manifest.sha256}. "
        f"Guarantee: {held}. Read with trimask {version()}"
    )
    fields = {
        "author": f"{{{_latex(author)}}}",
        "title": f"{{{_latex(manifest.title)}}}, release {manifest.release}",
        "year": str(when.year),
        "month": str(when.month),
        "howpublished": f"Trimask dataset, suite {manifest.suite}, {manifest.rows} people",
        "note": _latex(said),
    }
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{trimask-{manifest.dataset_id},\n{body}\n}}"


README_FILE = "README.md"
_HEAD = "# Trimask dataset "

_RECIPE = """\
Y <- as.matrix(read.csv("{data}", check.names = FALSE))  # rows of the release: not people
n <- {rows}; sigma <- {sigma}  # people, and the noise on every value in scaled units
center <- c({center})
half <- c({half})
S <- sigma^2 * (outer(center, center) + diag(half^2))  # what the noise adds to the products of a row
G <- crossprod(Y) - n * S  # X'X without the noise, on average
y <- "{response}"; x <- c({regressors}){intercept}
inverse <- solve(G[x, x]); b <- drop(inverse %*% G[x, y])
all <- c(y, x); theta <- c(1, -b)
u <- drop(S[x, all] %*% theta)
v <- drop(theta %*% G[all, all] %*% theta) / (n - length(x)) + drop(theta %*% S[all, all] %*% theta)
V <- v * inverse + n * inverse %*% (v * S[x, x] + outer(u, u)) %*% inverse
result <- data.frame(estimate = b, error = sqrt(diag(V)), row.names = x)
print(cbind(result, low = b - 1.96 * result$error, high = b + 1.96 * result$error), digits = 6)
"""
_RECIPE_DERIVED = """\
rows <- read.csv("{data}", check.names = FALSE)  # made from the published moments: nobody's
fit <- lm({response} ~ 0 + {sum}, data = rows){intercept}
result <- data.frame(estimate = coef(fit))  # right on average, to first order in the noise
print(result, digits = 6)  # lm's standard errors, tests and R-squared leave the noise out: do not print them
"""


def dataset_notes(manifest: Manifest, units: Units) -> dict[str, str]:
    """The notes of `trimask_core.submit.release_files`, with the dataset's id and hash."""
    derived = " derived rows" if manifest.suite == "moments" else ""
    return {
        **row_notes(manifest.study, manifest.rows, units),
        "name": f"{manifest.dataset_id}{derived}",
        "dataset_id": manifest.dataset_id,
        "manifest_sha256": manifest.sha256,
        "written_by": f"trimask {version()}",
        "recipe": "README beside the data, or trimask.Dataset.r_recipe()",
    }


def _model(manifest: Manifest) -> tuple[str, list[str]]:
    """A first model: the first column that is no group on all others, groups without their first level."""
    schema = manifest.study.schema
    groups = {item.name: item.levels[0] for item in schema.attributes if item.kind == "categorical"}
    asked = [
        column.name
        for column in schema.columns
        if column.level is None or column.level != groups.get(column.source or "")
    ]
    derived = {item.name for item in schema.derived}
    plain = [
        column.name
        for column in schema.columns
        if column.name in asked and not {column.name, column.source} & derived
    ]
    numbers = [item.name for item in schema.attributes if item.kind != "categorical"]
    response = numbers[0] if numbers else plain[-1]
    return response, [name for name in plain if name != response]


def _vector(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def r_recipe(manifest: Manifest, data: str) -> str:
    """R code, base R alone, that fits a linear model to the CSV file `data` with the noise taken off."""
    response, regressors = _model(manifest)
    intercept = "  # `one` is the intercept" if manifest.study.schema.ones else ""
    if manifest.suite == "moments":
        return _RECIPE_DERIVED.format(
            data=data, response=response, sum=" + ".join(regressors), intercept=intercept
        )
    center, half = noise_shape(manifest.columns)
    return _RECIPE.format(
        data=data, rows=manifest.rows, sigma=repr(manifest.sigma), center=_vector(center), half=_vector(half),
        response=response, regressors=", ".join(f'"{name}"' for name in regressors), intercept=intercept,
    )  # fmt: skip


def sent_together(manifest: Manifest) -> str:
    """Who was submitted by an institution, in a sentence; nothing if nobody was, as far as right providers saw."""
    found = manifest.counts.get("sent_together") or {}
    if not found:
        return ""
    counted = ", ".join(f"{role} {count:,}" for role, count in found.items())
    return (
        "Of the study's people until then these came together, from an institution that has their answers, as right "
        f"providers counted and the collector passes on: {counted}. Any that it sent one by one are not among them."
    )


def readme(manifest: Manifest, data: str = "dataset.csv") -> str:
    """What is in the folder, what it is not, and how to use it; `data` is the CSV file the recipe reads."""
    study, stored = manifest.study, manifest.suite == "rows"
    promise = manifest.guarantee("public")
    files = "\n".join(f"| `{entry.name}` | {entry.bytes:,} | `{entry.sha256}` |" for entry in manifest.files)
    columns = "\n".join(
        f"| `{one.name}` | {one.center!r} | {one.half_range!r} | {_meaning(one.name, one.source, one.level)} |"
        for one in manifest.columns
    )
    noise = (
        f"Every value holds Gaussian noise of deviation sigma = {manifest.sigma!r} in scaled units, added on the device. "
        "`lm()` on the rows as they are is biased by it, and its signs may be wrong."
        if stored
        else f"The published totals hold Gaussian noise (sigma = {manifest.sigma!r}); exported rows are made from them."
    )
    if not manifest.sigma:
        noise = "Exact mode: no noise was added, and there is no differential privacy."
    formula = (
        "X'X is estimated by Y'Y - n sigma^2 I in scaled units (`dataset.parquet`), and in original units (exports) by\n"
        "Y'Y - n sigma^2 (c c' + diag(h^2)), where n is the number of people, whatever number of rows is stored, c has\n"
        "the centers and h the half ranges of the columns, but c = 1 and h = 0 for `one`."
        if stored
        else "There is none to be made: sums of products of exported rows are those that `trimask.fit` uses."
    )
    one = (
        f"{INTERCEPT[0].upper()}{INTERCEPT[1:]}." if study.schema.ones else "The study has no column of ones."
    )
    if study.weight is not None:
        one += (
            f"\n{weight_note(study)} The recipe's errors take weights for inverse variances; `trimask.fit` takes sampling "
            "errors at the effective number of people. Design-based (sandwich) errors cannot be had from second moments."
        )
    if together := sent_together(manifest):
        one += f"\n\n{together}"
    return f"""\
{_HEAD}{manifest.dataset_id}

{_plain(manifest.title)}: release {manifest.release}, {manifest.rows:,} people, suite {manifest.suite}.

**{NOT_PEOPLE if stored else DERIVED}**

{noise}
{one}

Guarantee: {promise if promise is not None else "none: exact mode, masked without differential privacy"}

## In Python

```python
import trimask

dataset = trimask.Dataset.open(".")  # checks signatures and hashes
print(trimask.fit.ols(dataset, "{_formula(manifest)}").summary())  # noise corrected, errors with the noise in them
```

## In R

Errors here are of first order in the noise; `trimask.fit` also uses what the schema knows, and has smaller ones.
{"Change `y` and `x` for another model." if stored else "Errors need the law of the noise, which `trimask.fit` has."}

```r
{r_recipe(manifest, data)}```

## The correction

{formula}

| column | center | half range | meaning |
|---|--:|--:|---|
{columns}

A value in original units is center x one + half range x scaled value.

## Files

| file | bytes | SHA-256 |
|---|--:|---|
{files}

The manifest (`manifest.json`, SHA-256 `{manifest.sha256}`) is signed by the collector, and the study in it by every party.

## Cite

```bibtex
{bibtex(manifest)}
```
"""


def _formula(manifest: Manifest) -> str:
    response, regressors = _model(manifest)
    schema = manifest.study.schema
    words = {column.name: column for column in schema.columns}
    terms = []
    for name in regressors:
        column = words[name]
        term = f"C({column.source})" if column.level is not None else name
        if name != "one" and term not in terms:
            terms.append(term)
    return f"{response} ~ {' + '.join(terms) or '1'}"


def _meaning(name: str, source: str | None, level: str | None) -> str:
    if name == "one":
        return "1 for everybody: the intercept"
    if level is not None:
        return f"1 for people with {source} = {level}"
    return "as declared" if name == source else "declared, formed on the device"


def _plain(text: str) -> str:
    """A study's own words on one line, without Markdown's or HTML's meaning."""
    for mark in "\\`*_[]<>#|":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def write_readme(manifest: Manifest, folder: Path, data: str = "dataset.csv") -> Path | None:
    """README.md in a dataset's own folder; another's README there is left as it is."""
    path = folder / README_FILE
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(_HEAD):
        return None
    path.write_text(readme(manifest, data), encoding="utf-8")
    return path

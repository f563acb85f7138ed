"""Every statement of the five papers: where it is built, and which test shows it. Prints docs/coverage.md.

    python scripts/paper_coverage.py > docs/coverage.md

The rows are in `paper_coverage.txt`: statements (with a semicolon between them), a module or an object of one (a leading dot
stands for `trimask_theory`), a file and a function under tests/ (theory/ where no folder is named), a remark. What is not
built has no module. tests/meta/paper_statements.json lists what the papers number; none of it may be missing here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["PAPERS", "Result", "document"]


class Result(NamedTuple):
    """One row: a statement of a paper, or several."""

    what: str
    where: str
    test: str
    remark: str

    @classmethod
    def of(cls, line: str) -> Result:
        """Of a line of the file."""
        what, where, test, remark = (part.strip() for part in line.split("|"))
        where = f"trimask_theory{where}" if where.startswith(".") else where
        test = f"theory/{test}" if test and "/" not in test.split("::")[0] else test
        return cls(what, where, test, remark)


def _read() -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = {}
    paper = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            paper = line.removeprefix("# ")
        elif line:
            found.setdefault(paper, []).append(Result.of(line))
    return found


PAPERS = _read()


def _together(names: str) -> str:
    """ "Lemma 5; Lemma 6; Fact 2" as "Lemma 5, 6, Fact 2"."""
    said: list[str] = []
    kind = ""
    for name in names.split("; "):
        first, _, rest = name.partition(" ")
        said.append(rest if first == kind and rest else name)
        kind = first
    return ", ".join(said)


def document() -> str:
    """The page."""
    lines = [
        "# The papers, statement by statement",
        "",
        "For readers of the five papers: of every statement, table, figure and algorithm the module it is built in and the",
        "test that shows it; made by `scripts/paper_coverage.py`. What is wrong in them: [errata](theory/errata.md).",
    ]
    for paper, results in PAPERS.items():
        lines += ["", f"## {paper}", ""]
        for item in results:
            named = ", ".join(f"`{word}`" for word in (item.where, item.test) if word)
            about = "; ".join(words for words in (named, item.remark) if words)
            lines.append(f"- {_together(item.what)}: {about}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(document(), end="")

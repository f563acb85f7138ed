"""Whatever cites the theory cites something that is there: docs/theory, by file and anchor."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "docs" / "theory"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(THEORY.glob("*.md"))}
FOLDERS = ("bench", "client", "docs", "mobile", "protos", "scripts", "sdk", "server", "tests", "theory")
CITATION = re.compile(r"docs/theory/([\w-]+\.md)(?:#([\w-]+))?")
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')
# "note 3", "Notes 6.2 and 6.4", "of_note_2": numbered notes that a reader of the project does not have.
NUMBERED_NOTE = re.compile(r"(?<![a-z])notes?[\s_]+[1-9](?:\.\d+)?\b", re.IGNORECASE)


def sources() -> list[Path]:
    """Programs and documents, this file left out."""
    found = list(ROOT.glob("*.md"))
    for folder in FOLDERS:
        for suffix in ("py", "md", "proto", "toml", "ipynb", "html"):
            found += (ROOT / folder).rglob(f"*.{suffix}")
    return [path for path in found if path != Path(__file__) and "node_modules" not in path.parts]


def anchors(page: str) -> set[str]:
    """Places of a theory page that may be cited: its explicit anchors, which no change of a heading moves."""
    return set(ANCHOR.findall(PAGES.get(page, "")))


def unresolved(text: str, *, anchor_needed: bool) -> list[str]:
    """Citations in a text that lead nowhere."""
    return [
        f"{page}#{anchor}" if anchor else page
        for page, anchor in CITATION.findall(text)
        if page not in PAGES or (anchor and anchor not in anchors(page)) or (anchor_needed and not anchor)
    ]


def test_citations_lead_somewhere() -> None:
    cited = 0
    for path in sources():
        text = path.read_text(encoding="utf-8")
        cited += len(CITATION.findall(text))
        assert unresolved(text, anchor_needed=path.suffix == ".py") == [], path.relative_to(ROOT)
    assert cited > 50


def test_nothing_cites_a_numbered_note() -> None:
    for path in sources():
        found = NUMBERED_NOTE.findall(path.read_text(encoding="utf-8"))
        assert found == [], path.relative_to(ROOT)


def test_links_between_documents_and_theory_lead_somewhere() -> None:
    nowhere = []
    for document in sorted((ROOT / "docs").rglob("*.md")):
        for target, anchor in LINK.findall(document.read_text(encoding="utf-8")):
            path = (document.parent / target).resolve() if target else document
            cited = anchor and path.parent == THEORY
            if "://" not in target and (not path.exists() or (cited and anchor not in anchors(path.name))):
                nowhere.append(f"{document.name}: {target}#{anchor}")
    assert nowhere == []


def test_a_page_is_listed_and_its_anchors_are_its_own() -> None:
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [p for p in PAGES if f"theory/{p}" not in listed] == []
    found = {page: ANCHOR.findall(text) for page, text in PAGES.items()}
    assert [page for page, names in found.items() if len(names) < 3 or len(names) != len(set(names))] == []


def test_the_searches_would_find_something() -> None:
    page = next(iter(PAGES))
    cite = "docs/" + "theory/"
    assert unresolved(f"{cite}{page}#no-such-place {cite}nothing.md", anchor_needed=False) == [
        f"{page}#no-such-place",
        "nothing.md",
    ]
    assert unresolved(f"{cite}{page}", anchor_needed=True) == [page]
    for text in (
        "(no" + "te 3)",
        "No" + "tes 6.2 and 6.4",
        "the_default_of_no" + "te_2",
        "(no" + "te\n    6.4)",
    ):
        assert NUMBERED_NOTE.search(text)
    assert not NUMBERED_NOTE.search("denote 3 things; note that 3 of them")

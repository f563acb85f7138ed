"""What is served of the page: the sources' own tokens, without comments, and light enough for a slow network."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from trimask_cli.site.page import lean, page_of
from trimask_core.basics.errors import ConfigError
from trimask_web import WEB, development_package, run_node

MOST_BYTES = 150_000

TRICKY = r"""
/** A comment with `a backtick`, "a quote" and a / slash. */
export const a = 1; // one
const url = "https://survey.example//x"; const star = '/* kept */';
const pattern = /\/\/ not a comment [/*] "/g.test(url) ? 4 / 2 / 1 : a / 2;   /* gone */ const b = a/* x */+ /* y */a;
const text = `line one // kept
    indented ${a /* gone */ + `inner ${/[`}]/.source} // kept`} /* kept */
  last`;
function f() {
  return /* over
  lines */ 1;
}
const g = () => { return /re\/gexp/ };
let c = a /* one
two */
let d = { x: { y: `${{ z: 1 }.z}` } }
c++;
/re/.exec("")
"""
LEAN = r"""export const a = 1;
const url = "https://survey.example//x"; const star = '/* kept */';
const pattern = /\/\/ not a comment [/*] "/g.test(url) ? 4 / 2 / 1 : a / 2;     const b = a +  a;
const text = `line one // kept
    indented ${a   + `inner ${/[`}]/.source} // kept`} /* kept */
  last`;
function f() {
return
1;
}
const g = () => { return /re\/gexp/ };
let c = a
let d = { x: { y: `${{ z: 1 }.z}` } }
c++;
/re/.exec("")
"""


def same_tokens(pairs: dict[str, tuple[str, str]], folder: Path) -> str:
    """What the comparison by TypeScript's parser says; the test fails where a token differs."""
    (folder / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    return run_node(
        "tests/web/lean_tokens.js",
        development_package("typescript") / "lib" / "typescript.js",
        folder / "pairs.json",
    )


def test_the_page_is_its_sources_token_by_token(tmp_path: Path) -> None:
    served = {path: content for path, content in page_of(WEB).items() if path.endswith(".js")}
    pairs = {
        path: ((WEB / path).read_text(encoding="utf-8"), content.decode()) for path, content in served.items()
    }
    assert f"{len(served)} files" in same_tokens(pairs, tmp_path)
    assert not [path for path, content in served.items() if b"/**" in content or b"\n//" in content]


def test_comments_go_and_what_looks_like_one_stays(tmp_path: Path) -> None:
    made = lean("page/x.js", TRICKY.encode()).decode()
    assert made == LEAN
    same_tokens({"tricky": (TRICKY, made)}, tmp_path)


def test_a_change_of_one_token_would_be_seen(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="tricky: "):
        same_tokens({"tricky": (TRICKY, LEAN.replace("a / 2", "a * 2"))}, tmp_path)


def test_lean_stays_as_it_is() -> None:
    for path, content in page_of(WEB).items():
        assert lean(path, content) == content
    assert (
        lean("x.css", b'/* a */ p { content: "/* b */"; }\n\n  q {}\n')
        == b'p { content: "/* b */"; }\nq {}\n'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;\nb = 'x\n", "line 2: a string that does not end"),
        ("/* x", "line 1: a comment that does not end"),
        ("x = `a${1}", "a template that does not end"),
        ("x = /a[/]\n", "a regular expression that does not end"),
        ("f() {", "a brace that is not closed"),
        ("}", "a brace that was not opened"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        lean("page/x.js", text.encode())


def test_weight() -> None:
    """All files there are, the words of every language among them, as a web server compresses each."""
    packed = {path: len(gzip.compress(content, 9)) for path, content in page_of(WEB).items()}
    assert sum(packed.values()) < MOST_BYTES, sorted(packed.items(), key=lambda item: -item[1])[:8]

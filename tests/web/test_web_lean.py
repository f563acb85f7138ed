"""What is served of the page: the sources' own tokens, without comments, and light enough for a slow network."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from trimask_cli.site.page import in_order, lean, page_of
from trimask_core.basics.errors import ConfigError
from trimask_web import WEB, development_package, run_node

MOST_BYTES = 110_000

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


def same_tokens(folder: Path, pairs: dict[str, tuple[str, str]], script: dict[str, Any] | None = None) -> str:
    """What the comparison by TypeScript's parser says; the test fails where a token differs."""
    (folder / "pairs.json").write_text(json.dumps({"pairs": pairs, "script": script}), encoding="utf-8")
    return run_node(
        "tests/web/lean_tokens.js",
        development_package("typescript") / "lib" / "typescript.js",
        folder / "pairs.json",
    )


def served_script() -> dict[str, Any]:
    """The one script, the sources it should be of, and the files of their own."""
    files = page_of(WEB)
    sources = {
        path.relative_to(WEB).as_posix(): path.read_bytes()
        for name in ("device", "form", "page")
        for path in (WEB / name).rglob("*.js")
    }
    (name,) = (name for name in files if name.startswith("app."))
    own = {f"page/words/{file[:2]}.js": file for file in files if re.fullmatch(r"..\.[0-9a-f]+\.js", file)}
    order = in_order("page/main.js", {path: lean(path, text) for path, text in sources.items()}, own)
    modules = [(path, sources[path].decode()) for path in order]
    assert {*order, *own} == set(sources)  # nothing is left out
    return {"text": files[name].decode(), "modules": modules, "files": own}


def test_the_page_is_its_sources_token_by_token(tmp_path: Path) -> None:
    script = served_script()
    files = page_of(WEB)
    pairs = {
        path: ((WEB / path).read_text(encoding="utf-8"), files[name].decode())
        for path, name in script["files"].items()
    }
    assert f"{len(pairs) + 1} files" in same_tokens(tmp_path, pairs, script)
    assert "/**" not in script["text"]
    assert "\n//" not in script["text"]
    script["text"] = script["text"].replace("attempts", "tries", 1)
    with pytest.raises(pytest.fail.Exception, match="the one script: "):
        same_tokens(tmp_path, {}, script)


def test_comments_go_and_what_looks_like_one_stays(tmp_path: Path) -> None:
    made = lean("page/x.js", TRICKY.encode()).decode()
    assert made == LEAN
    same_tokens(tmp_path, {"tricky": (TRICKY, made)})


def test_a_change_of_one_token_would_be_seen(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="tricky: "):
        same_tokens(tmp_path, {"tricky": (TRICKY, LEAN.replace("a / 2", "a * 2"))})


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
    """What a first visit loads beside the study, in the language with the longest words, as a web server compresses it."""
    packed = {path: len(gzip.compress(content, 9)) for path, content in page_of(WEB).items()}
    languages = {name: size for name, size in packed.items() if re.match(r"..\.", name)}
    visit = sum(packed.values()) - sum(languages.values()) + max(languages.values())
    assert visit < MOST_BYTES, sorted(packed.items(), key=lambda item: -item[1])[:8]

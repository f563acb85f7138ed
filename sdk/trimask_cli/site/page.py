"""The page's files as a host serves them, and the one hash that stands for all of them.

Few files, for networks on which each costs a second: all modules in one script, the words of each language in one more. A
file's name has the beginning of its hash, so that it may be kept for ever. They are the same for every study: what is a
study's own (study.json) lies beside them and is checked by the study's id. index.html gets a content security policy, and
the hash of every script and style it leads to, so that a browser runs these and no others (subresource integrity; for
modules by the import map). The page's hash is that of its SHA256SUMS, which `sha256sum -c SHA256SUMS && sha256sum
SHA256SUMS` checks without any program of ours.

In the one script every module is a function that is called once, in the order of their imports: it takes what it imports
by name from what those functions gave back, and gives back what it exports. Nothing is renamed, nothing left out.

Comments, indentation and empty lines are left out of the sources, and nothing else is changed. The sources are written to
be read, and a quarter of their compressed weight is comments. What is served is made from them by this alone, without a
tool from elsewhere, always the same bytes, and once made lean it stays as it is. Line ends stay where they separate
anything, so that JavaScript's rules for missing semicolons find what they found before. A test holds the script
against every module, token by token, with TypeScript's own parser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from trimask_core.basics.errors import ConfigError
from trimask_core.explain.sentences import LANGUAGES, catalogue, read_words
from trimask_core.moments.study import WORDS as MOMENTS_WORDS
from trimask_core.rows import collusion as rows_collusion

_WORD = re.compile(r"[\w$#]+")
_SPACE = re.compile(r"[ \t\r]+")
# After these a slash begins a regular expression; after any other word, a number or a closing bracket it divides.
_BEFORE_PATTERN = re.compile(r"return|typeof|case|in|of|delete|void|throw|new|else|do|instanceof|yield|await")


def lean(path: str, content: bytes) -> bytes:
    """A script or style as it is served; other files as they are."""
    if path.endswith(".js"):
        return _Script(path, content.decode("utf-8")).run().encode()
    if path.endswith(".css"):
        return _style(path, content.decode("utf-8")).encode()
    return content


def _tidy(lines: str) -> str:
    """No indentation, no trailing space, no empty line; of text in which no string runs over a line."""
    return "\n".join(line.strip(" \t\r") for line in lines.split("\n") if line.strip(" \t\r"))


def _style(path: str, text: str) -> str:
    pieces = re.split(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|/\*.*?\*/)""", text, flags=re.DOTALL)
    kept = "".join("" if piece.startswith("/*") else piece for piece in pieces)
    if "/*" in "".join(pieces[::2]):
        raise ConfigError(f"{path} has a comment that does not end")
    return _tidy(kept) + "\n"


class _Script:
    """One pass over a module. `out` has its pieces: code, whose lines may be tidied, and literals, which stay."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.at = path, text, 0
        self.out: list[tuple[str, bool]] = []  # (piece, whether it is a literal)
        self.last = ""  # the last token that is no space: a word, a sign, or "literal"
        self.braces: list[bool] = []  # open braces; True: ${ of a template

    def run(self) -> str:
        while self.at < len(self.text):
            self.step()
        if self.braces:
            raise self.wrong("a brace that is not closed")
        return self.joined()

    def wrong(self, what: str) -> ConfigError:
        line = self.text.count("\n", 0, self.at) + 1
        return ConfigError(f"{self.path}, line {line}: {what}")

    def joined(self) -> str:
        """Code tidied line by line, literals left alone: a mark stands for each while that is done."""
        literals = [piece for piece, literal in self.out if literal]
        code = "".join("\0" if literal else piece for piece, literal in self.out)
        found = iter(literals)
        return re.sub("\0", lambda _: next(found), _tidy(code)) + "\n"

    def step(self) -> None:
        text, at = self.text, self.at
        if text[at] == "\0":
            raise self.wrong("a zero character")
        if text.startswith("//", at):
            self.at = self.end_of_line()
        elif text.startswith("/*", at):
            end = text.find("*/", at + 2)
            if end < 0:
                raise self.wrong("a comment that does not end")
            # It separates what stands beside it; over several lines it ends a line, as the language has it.
            self.code("\n" if "\n" in text[at:end] else " ")
            self.at = end + 2
        elif text[at] in "\"'":
            self.literal(self.end_of_string(text[at]))
        elif text[at] == "`":
            self.template()
        elif text[at] == "/" and self.begins_pattern():
            self.literal(self.end_of_pattern())
        elif text[at] == "}" and self.braces and self.braces[-1]:
            self.braces.pop()
            self.template()
        else:
            self.plain()

    def plain(self) -> None:
        """A word, a space, or one sign."""
        found = _WORD.match(self.text, self.at) or _SPACE.match(self.text, self.at)
        piece = found.group() if found else self.text[self.at]
        self.at += len(piece)
        self.code(piece)
        if piece.strip():
            self.last = piece
        if piece == "{":
            self.braces.append(False)
        elif piece == "}":
            if not self.braces:
                raise self.wrong("a brace that was not opened")
            self.braces.pop()

    def code(self, piece: str) -> None:
        self.out.append((piece, False))

    def literal(self, end: int) -> None:
        self.out.append((self.text[self.at : end], True))
        self.at, self.last = end, "literal"

    def begins_pattern(self) -> bool:
        if not self.last or _BEFORE_PATTERN.fullmatch(self.last):
            return True
        return self.last not in {")", "]", "}", "literal"} and not _WORD.fullmatch(self.last)

    def end_of_line(self) -> int:
        end = self.text.find("\n", self.at)
        return len(self.text) if end < 0 else end

    def end_of_string(self, quote: str) -> int:
        at = self.at + 1
        while at < len(self.text) and self.text[at] not in (quote, "\n"):
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text) or self.text[at] == "\n":
            raise self.wrong("a string that does not end on its line")
        return at + 1

    def end_of_pattern(self) -> int:
        at, inside = self.at + 1, False
        while at < len(self.text) and self.text[at] != "\n":
            sign = self.text[at]
            if sign == "/" and not inside:
                flags = _WORD.match(self.text, at + 1)
                return flags.end() if flags else at + 1
            inside = sign == "[" or (inside and sign != "]")
            at += 2 if sign == "\\" else 1
        raise self.wrong("a regular expression that does not end on its line")

    def template(self) -> None:
        """From a backtick, or from the brace that closes a part, to the next part or the end."""
        at = self.at + 1
        while at < len(self.text) and self.text[at] != "`":
            if self.text.startswith("${", at):
                self.literal(at + 2)
                self.braces.append(True)
                self.last = "{"
                return
            at += 2 if self.text[at] == "\\" else 1
        if at >= len(self.text):
            raise self.wrong("a template that does not end")
        self.literal(at + 1)


INDEX, SUMS, NOT_FOUND = "index.html", "SHA256SUMS", "404.html"
_FOLDERS = ("page", "device", "form")
_LEFT_AS_THEY_ARE = {".svg", ".png", ".woff2"}
_WORDS = re.compile(r"page/words/[a-z]{2,3}\.js")  # of one language: loaded when it is spoken
POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self' {connect}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_STATIC = re.compile(
    r"""^(import|export) (\{[^{}]*\}|\* as \w+|\w+) from "(\.{1,2}/[^"]+)";\n""", re.MULTILINE
)
_EXPORTED = re.compile(r"^export (?=(?:const|class|function\*?|async function) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^(?:import\b(?!\()|export\b).*", re.MULTILINE)
_DYNAMIC = re.compile(r"""\bimport\("(\.{1,2}/[^"]+)"\)""")
_MODULE = re.compile(r'<script type="module" src="([^"]+)"></script>')
_LINKED = re.compile(r'<link rel="(stylesheet|icon)" href="([^"]+)"')
_CHARSET = '<meta charset="utf-8">'


def words() -> dict[str, bytes]:
    """The page's modules of words, which no folder has: a JSON object a language, and the exact statement's sentences."""
    exact = read_words("exact") | rows_collusion.WORDS | MOMENTS_WORDS
    said = {"exact": exact, **{tag: catalogue(tag) for tag in LANGUAGES}}
    return {
        f"page/words/{name}.js": f"export default {json.dumps(texts, ensure_ascii=False, indent=1)};\n".encode()
        for name, texts in said.items()
    }


def page_of(folder: Path) -> dict[str, bytes]:
    """Every file of the page by its name, ready to be served: made of our sources, or somebody's own as they stand."""
    if not all((folder / name).is_dir() for name in ("page", "device")):
        return _own_page(folder)
    sources = {
        path.relative_to(folder).as_posix(): lean(path.name, path.read_bytes())
        for name in _FOLDERS
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and path.suffix in {".js", ".css", *_LEFT_AS_THEY_ARE}
    }
    sources |= {path: lean(path, content) for path, content in words().items()}
    try:
        index, not_found = ((folder / name).read_text(encoding="utf-8") for name in (INDEX, NOT_FOUND))
    except OSError as error:
        raise ConfigError(f"{folder} is no page: {error.filename}: {error.strerror}") from None
    scripts = _MODULE.findall(index)
    if len(scripts) != 1 or index.count(_CHARSET) != 1:
        raise ConfigError(f"{INDEX} must have one charset and one module script, written as in client/web")
    names = {path: _hashed(path, content) for path, content in sources.items() if not path.endswith(".js")}
    names |= {path: _hashed(path, content) for path, content in sources.items() if _WORDS.fullmatch(path)}
    files = {names[path]: sources[path] for path in names}
    whole = bundle(scripts[0], sources, names)
    names[scripts[0]] = _hashed("app.js", whole)
    files[names[scripts[0]]] = whole
    files[INDEX], files[NOT_FOUND] = _index(index, names, files).encode(), not_found.encode()
    return files


def _own_page(folder: Path) -> dict[str, bytes]:
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    for beside in (SUMS, "study.json"):
        files.pop(beside, None)
    if INDEX not in files:
        raise ConfigError(f"{folder} is no page: it has no {INDEX}")
    return files


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS, in the form of the program of that name, sorted by path."""
    lines = [f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files)]
    return "".join(lines).encode()


def page_hash(files: Mapping[str, bytes]) -> str:
    """What a study names as `page_sha256`."""
    return hashlib.sha256(sums_of(files)).hexdigest()


def bundle(start: str, sources: Mapping[str, bytes], names: Mapping[str, str]) -> bytes:
    """One script of all modules that `start` leads to, itself the last; files in `names` stay files of their own."""
    order = in_order(start, sources, names)
    place = {path: f"${number}" for number, path in enumerate(order)}
    return "".join(
        _wrapped(path, sources[path].decode(), place, names, last=path == start) for path in order
    ).encode()


def in_order(start: str, sources: Mapping[str, bytes], names: Mapping[str, str]) -> list[str]:
    """The modules of the one script, each after those it imports, `start` last."""
    done: list[str] = []
    needed = [start]  # and later those that are imported only when they are needed

    def visit(path: str, above: tuple[str, ...]) -> None:
        if path in done or path in names:
            return
        if path in above:
            through = " and ".join(above[above.index(path) + 1 :])
            raise ConfigError(f"{path} imports itself, through {through or 'nothing'}: no order fits")
        if path not in sources:
            raise ConfigError(f"{INDEX} leads to {path}, which is not among the page's files")
        text = sources[path].decode()
        for _, _, name in _STATIC.findall(text):
            visit(_reached(path, name, sources), (*above, path))
        needed.extend(_reached(path, name, sources) for name in _DYNAMIC.findall(text))
        done.append(path)

    while needed:
        visit(needed.pop(), ())
    return [*(path for path in done if path != start), start]


def _wrapped(path: str, text: str, place: Mapping[str, str], names: Mapping[str, str], *, last: bool) -> str:
    """A module as a function that is called at once; the last one as it is, since it may wait."""
    given: list[str] = []
    sources = {**place, **names}

    def static(found: re.Match[str]) -> str:
        what, names_of, name = found.groups()
        module = place[_reached(path, name, sources)]
        if what == "export":
            given.extend(f"{one}: {module}.{one}" for one in re.findall(r"\w+", names_of))
            return ""
        if names_of.startswith("* as "):
            return f"const {names_of[5:]} = {module};\n"
        if not names_of.startswith("{"):
            return f"const {{ default: {names_of} }} = {module};\n"
        return f"const {names_of.replace(' as ', ': ')} = {module};\n"

    def exported(found: re.Match[str]) -> str:
        given.append(found[1])
        return ""

    def dynamic(found: re.Match[str]) -> str:
        reached = _reached(path, found[1], sources)
        return f'import("./{names[reached]}")' if reached in names else f"Promise.resolve({place[reached]})"

    text = _EXPORTED.sub(exported, _STATIC.sub(static, text))
    if text.startswith("export default "):
        text = "const $default = " + text.removeprefix("export default ")
        given.append("default: $default")
    if left := _LEFT.search(text):
        raise ConfigError(f"{path}: this cannot be put into one script: {left[0]}")
    text = _DYNAMIC.sub(dynamic, text)
    if last:
        return text
    return f"const {place[path]} = (() => {{\n{text}return {{ {', '.join(given)} }};\n}})();\n"


def _hashed(path: str, content: bytes) -> str:
    stem, _, kind = path.rpartition("/")[2].rpartition(".")
    return f"{stem}.{hashlib.sha256(content).hexdigest()[:12]}.{kind}"


def _index(text: str, names: Mapping[str, str], files: Mapping[str, bytes]) -> str:
    integrity = {
        f"./{name}": _integrity(files[name]) for name in sorted(names.values()) if name.endswith(".js")
    }
    imports = json.dumps({"integrity": integrity}, separators=(",", ":"))
    allowed = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    policy = POLICY.format(scripts=f"'sha256-{allowed}'", connect="https:")
    head = (
        f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<script type="importmap">{imports}</script>'
    )

    def linked(found: re.Match[str]) -> str:
        name = _named(found[2], names)
        held = f' integrity="{_integrity(files[name])}"' if found[1] == "stylesheet" else ""
        return f'<link rel="{found[1]}" href="{name}"{held}'

    def script(found: re.Match[str]) -> str:
        name = _named(found[1], names)
        return f'<script type="module" src="{name}" integrity="{_integrity(files[name])}"></script>'

    return _MODULE.sub(script, _LINKED.sub(linked, text.replace(_CHARSET, head)))


def _named(path: str, names: Mapping[str, str]) -> str:
    if path not in names:
        raise ConfigError(f"{INDEX} leads to {path}, which is not among the page's files")
    return names[path]


def _reached(path: str, name: str, files: Mapping[str, object]) -> str:
    """The path of what a module imports by a name."""
    parts: list[str] = path.split("/")[:-1]
    for part in name.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    reached = "/".join(parts)
    if reached not in files:
        raise ConfigError(f"{path} imports {name}, which is not among the page's files")
    return reached


def _integrity(content: bytes) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()

"""The page's sources without what a browser does not need: comments, indentation, empty lines. Nothing else is changed.

The sources are written to be read, and a quarter of their compressed weight is comments. What is served is made from them
by this alone, without a tool from elsewhere, always the same bytes, and once made lean it stays as it is. Line ends stay
where they separate anything, so that JavaScript's rules for missing semicolons find what they found before. A test holds
every file of the page against the original, token by token, with TypeScript's own scanner.
"""

from __future__ import annotations

import re

from trimask_core.errors import ConfigError

__all__ = ["lean"]

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

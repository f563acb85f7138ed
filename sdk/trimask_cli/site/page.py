"""The page's files as a host serves them, and the one hash that stands for all of them.

Made from the sources by leaving out comments (`lean`), and the same for every study: what is a study's own (study.json)
lies beside them and is checked by the study's id. index.html gets a content security policy, and the hash of every script
and style it leads to, so that a browser runs these and no others (subresource integrity; for modules by the import map).
The page's hash is that of its SHA256SUMS, which `sha256sum -c SHA256SUMS && sha256sum SHA256SUMS` checks without any
program of ours.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from trimask_cli.site.lean import lean
from trimask_core.errors import ConfigError

__all__ = ["INDEX", "POLICY", "SUMS", "page_hash", "page_of", "sums_of"]

INDEX, SUMS = "index.html", "SHA256SUMS"
_FOLDERS = ("page", "device", "form")
_KINDS = {".js", ".css", ".svg", ".png", ".woff2"}
POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self' {connect}; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
_STATIC = re.compile(
    r"""^\s*(?:import|export)\b[^"';]*?(?:\bfrom\s*)?["'](\.{1,2}/[^"']+)["']""", re.MULTILINE
)
_MODULE = re.compile(r'<script type="module" src="([^"]+)"></script>')
_STYLE = re.compile(r'<link rel="stylesheet" href="([^"]+)">')
_CHARSET = '<meta charset="utf-8">'


def page_of(folder: Path) -> dict[str, bytes]:
    """Every file of the page by its path, ready to be served."""
    files = {
        path.relative_to(folder).as_posix(): lean(path.name, path.read_bytes())
        for name in _FOLDERS
        for path in sorted((folder / name).rglob("*"))
        if path.is_file() and path.suffix in _KINDS
    }
    try:
        index = (folder / INDEX).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{folder} is no page: {INDEX}: {error.strerror}") from None
    files[INDEX] = _index(index, files).encode()
    return files


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """SHA256SUMS, in the form of the program of that name, sorted by path."""
    lines = [f"{hashlib.sha256(files[path]).hexdigest()}  {path}\n" for path in sorted(files)]
    return "".join(lines).encode()


def page_hash(files: Mapping[str, bytes]) -> str:
    """What a study names as `page_sha256`."""
    return hashlib.sha256(sums_of(files)).hexdigest()


def _index(text: str, files: Mapping[str, bytes]) -> str:
    scripts = _MODULE.findall(text)
    if len(scripts) != 1 or text.count(_CHARSET) != 1:
        raise ConfigError(f"{INDEX} must have one charset and one module script, written as in client/web")
    modules = sorted(path for path in files if path.endswith(".js"))
    imports = json.dumps(
        {"integrity": {f"./{path}": _integrity(_there(path, files)) for path in modules}},
        separators=(",", ":"),
    )
    allowed = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    policy = POLICY.format(scripts=f"'sha256-{allowed}'", connect="https:")
    head = (
        f'{_CHARSET}\n<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<script type="importmap">{imports}</script>'
    )
    early = [path for path in _reached(scripts[0], files) if path != scripts[0]]
    ahead = "".join(
        f'<link rel="modulepreload" href="{path}" integrity="{_integrity(files[path])}">\n' for path in early
    )
    text = text.replace(_CHARSET, head)
    text = _STYLE.sub(
        lambda found: (
            f'<link rel="stylesheet" href="{found[1]}" integrity="{_integrity(_there(found[1], files))}">'
        ),
        text,
    )
    return _MODULE.sub(
        lambda found: (
            f'{ahead}<script type="module" src="{found[1]}" integrity="{_integrity(_there(found[1], files))}"></script>'
        ),
        text,
    )


def _there(path: str, files: Mapping[str, bytes]) -> bytes:
    if path not in files:
        raise ConfigError(f"{INDEX} leads to {path}, which is not among the page's files")
    return files[path]


def _reached(start: str, files: Mapping[str, bytes]) -> list[str]:
    """The modules that are loaded before the first one runs, nearest first."""
    found, waiting = [start], [start]
    while waiting:
        path = waiting.pop(0)
        for name in _STATIC.findall(_there(path, files).decode()):
            parts: list[str] = path.split("/")[:-1]
            for part in name.split("/"):
                if part == "..":
                    parts.pop()
                elif part != ".":
                    parts.append(part)
            reached = "/".join(parts)
            if reached not in files:
                raise ConfigError(f"{path} imports {name}, which is not among the page's files")
            if reached not in found:
                found.append(reached)
                waiting.append(reached)
    return found


def _integrity(content: bytes) -> str:
    return "sha384-" + base64.b64encode(hashlib.sha384(content).digest()).decode()

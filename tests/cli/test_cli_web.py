"""The page as static files: one hash for it, integrity of everything it runs, a site, headers, and what a host serves."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trimask_cli.site.hosting import caching, site_server
from trimask_cli.site.page import page_hash, page_of
from trimask_cli.study_file import bundled_definition, device_file, read_signed, seed_file
from trimask_client.fetch import fetch_linked
from trimask_core.basics.errors import ConfigError, StudyError, VerificationError
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.party import read_secret
from trimask_core.study.signed import approve
from trimask_core.submit.invitation import Link
from trimask_server.local.keys import make_keys, node_places
from trimask_terminal.program import main

Run = Callable[..., Any]  # the `trimask` fixture: arguments to status, out and err
ROOT = Path(__file__).parents[2]
HOST = "https://survey.example"
INDEX = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Page</title>
<link rel="stylesheet" href="page/page.css">
<script type="module" src="page/main.js"></script>
</head>
<body></body>
</html>
"""
FILES = {
    "index.html": INDEX,
    "404.html": "<!doctype html><title>Not found</title>",
    "package.json": "{}",
    "page/page.css": "body { color: black }",
    "page/main.js": 'import { a as one, b } from "../device/index.js";\nconst words = await import("./words/en.js");\n',
    "device/index.js": 'export { b } from "./bytes.js";\n/** @typedef {import("./none.js").X} X */\nexport const a = 1;\n',
    "device/bytes.js": 'export const b = 2;\nexport const later = () => import("./later.js");\n',
    "device/later.js": 'import * as bytes from "./bytes.js";\nexport class Later {}\n',
    "device/notes.md": "not served",
    "node_modules/x/index.js": "not served",
}


@pytest.fixture(scope="module")
def served_port() -> int:
    """A port of this module's, for links that name it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def web_study(tmp_path_factory: pytest.TempPathFactory, served_port: int) -> Path:
    """A page and a study that names it, which every party has approved; not to be written to."""
    folder = tmp_path_factory.mktemp("web")
    for name, text in FILES.items():
        path = folder / "web" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    keys, file = folder / "keys", folder / "study.json"
    make_keys(keys, node_places(3, 2, "127.0.0.1", 7400, https=True))
    hosts = json.dumps([HOST, f"http://localhost:{served_port}"])
    text = bundled_definition()
    text += f'\n[web]\nhosts = {hosts}\npage_sha256 = "{page_hash(page_of(folder / "web"))}"\n'
    (folder / "study.toml").write_text(text)
    assert main(["study", "new", str(folder / "study.toml"), "--keys", str(keys), "--out", str(file)]) == 0
    signed = read_signed(file)
    for name in signed.study.parties:
        key = SigningKey(read_secret(keys / name / "identity.key"))
        signed = signed.with_approval(approve(signed.study, key, 1))
    file.write_text(signed.to_json())
    device_file(file).write_text(signed.with_seed(read_secret(seed_file(file))).to_json())
    return folder


@pytest.fixture
def page(tmp_path: Path, web_study: Path) -> Path:
    folder: Path = shutil.copytree(web_study / "web", tmp_path / "web")
    return folder


@pytest.fixture
def study_file(tmp_path: Path, web_study: Path) -> Path:
    """In the form devices get; without the seed of B_0 it is beside it."""
    shutil.copy(web_study / "study.json", tmp_path)
    return Path(shutil.copy(web_study / "study.device.json", tmp_path))


@pytest.fixture
def site(trimask: Run, tmp_path: Path, page: Path, study_file: Path) -> Path:
    done = trimask("web", "export", study_file, "--out", tmp_path / "site", "--page", page)
    assert done.status == 0, done.err
    return tmp_path / "site"


def test_the_hash_is_of_what_is_served_and_nothing_else(trimask: Run, page: Path) -> None:
    first = trimask("web", "check", "--page", page).out.strip()
    (page / "package.json").write_text("{ }")
    (page / "device" / "notes.md").write_text("others")
    assert trimask("web", "check", "--page", page).out.strip() == first
    seen = {first}
    for name in (
        "index.html",
        "404.html",
        "page/page.css",
        "page/main.js",
        "device/bytes.js",
    ):
        kept = (page / name).read_text()
        (page / name).write_text(kept + ";\n")
        seen.add(trimask("web", "check", "--page", page).out.strip())
        if not name.endswith(".html"):
            (page / name).write_text(kept + "  /* not served */\n")
            assert trimask("web", "check", "--page", page).out.strip() == first
        (page / name).write_text(kept)
    assert len(seen) == 6
    (page / "page" / "more.js").write_text("")  # which nothing leads to
    assert trimask("web", "check", "--page", page).out.strip() == first


def test_a_page_of_somebody_s_own_is_its_files_as_they_stand(trimask: Run, tmp_path: Path) -> None:
    page = tmp_path / "dist"
    (page / "more").mkdir(parents=True)
    assert "it has no index.html" in trimask("web", "check", "--page", page).err
    (page / "index.html").write_text("<!doctype html>")
    (page / "more" / "main.js").write_text("1  ;  // kept")
    assert page_of(page) == {"index.html": b"<!doctype html>", "more/main.js": b"1  ;  // kept"}
    for beside in ("SHA256SUMS", "study.json"):  # what an export writes there
        (page / beside).write_text("{}")
    told = trimask("web", "check", "--page", page, "--json")
    assert json.loads(told.out)["page_sha256"] == page_hash(page_of(page))
    assert json.loads(told.out)["files"] == 2


def test_export_asks_where_to_or_which_headers(
    trimask: Run, tmp_path: Path, page: Path, study_file: Path
) -> None:
    done = trimask("web", "export", study_file, "--page", page)
    assert done.status != 0
    assert "--out" in done.err
    both = trimask(
        "web", "export", study_file, "--page", page, "--out", tmp_path / "site", "--headers", "caddy"
    )
    assert both.status == 0
    assert "file_server" in both.out
    assert list((tmp_path / "site" / "s").iterdir())


ONE_SCRIPT = """const $0 = (() => {
const b = 2;
const later = () => Promise.resolve($2);
return { b, later };
})();
const $1 = (() => {
const a = 1;
return { b: $0.b, a };
})();
const $2 = (() => {
const bytes = $0;
class Later {}
return { Later };
})();
const { a: one, b } = $1;
const words = await import("./WORDS");
"""


def test_few_files_each_named_by_its_hash(page: Path) -> None:
    """All modules in one script, in the order of their imports; the words of a language are a file of their own."""
    files = page_of(page)
    named = {re.sub(r"\.[0-9a-f]{12}\.", ".", name): name for name in files}
    assert set(named) == {"index.html", "404.html", "page.css", "app.js", "ar.js", "de.js", "en.js", "hi.js"}
    assert files[named["app.js"]].decode() == ONE_SCRIPT.replace("WORDS", named["en.js"])
    for name in set(files) - {"index.html", "404.html"}:
        assert hashlib.sha256(files[name]).hexdigest()[:12] in name
        assert "immutable" in caching(f"/s/abcdefgh/{name}")
    for name in ("index.html", "404.html", "study.json", "SHA256SUMS", ""):
        assert caching(f"/s/abcdefgh/{name}") == "no-cache"


def test_every_script_and_style_has_its_hash(page: Path) -> None:
    files = page_of(page)
    text = files["index.html"].decode()

    def integrity(path: str) -> str:
        return "sha384-" + base64.b64encode(hashlib.sha384(files[path]).digest()).decode()

    (style,) = (name for name in files if name.startswith("page."))
    (script,) = (name for name in files if name.startswith("app."))
    assert f'href="{style}" integrity="{integrity(style)}"' in text
    assert f'<script type="module" src="{script}" integrity="{integrity(script)}"></script>' in text
    (imports,) = re.findall(r'<script type="importmap">(.*?)</script>', text)
    modules = [path for path in files if path.endswith(".js")]
    assert json.loads(imports) == {"integrity": {f"./{path}": integrity(path) for path in modules}}
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    allowed = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{allowed}';" in policy[1]
    assert "unsafe" not in policy[1]
    assert policy[1].startswith("default-src 'none'")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("index.html", INDEX.replace("main.js", "gone.js"), "page/gone.js"),
        ("index.html", INDEX.replace("page.css", "gone.css"), "page/gone.css"),
        ("index.html", INDEX.replace('<script type="module"', "<script defer"), "one module script"),
        ("device/index.js", 'import { a } from "./gone.js";\n', "imports ./gone.js"),
        ("device/index.js", 'import "./bytes.js";\n', "cannot be put into one script: import"),
        ("device/index.js", 'export * from "./bytes.js";\n', r"cannot be put into one script: export \*"),
        ("device/index.js", "export let a = 1;\n", "cannot be put into one script: export let"),
        ("device/bytes.js", 'import { a } from "./index.js";\nexport const b = a;\n', "imports itself"),
    ],
)
def test_a_page_that_is_not_whole(page: Path, name: str, text: str, said: str) -> None:
    (page / name).write_text(text)
    with pytest.raises(ConfigError, match=said):
        page_of(page)


def test_a_site_checks_with_plain_tools(site: Path, study_file: Path) -> None:
    (folder,) = (site / "s").iterdir()
    study = read_signed(study_file).study
    assert Link(HOST, study.id).page == f"{HOST}/s/{folder.name}"
    done = subprocess.run(
        ["sha256sum", "--quiet", "--strict", "-c", "SHA256SUMS"], cwd=folder, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert study.web is not None
    assert hashlib.sha256((folder / "SHA256SUMS").read_bytes()).hexdigest() == study.web.page_sha256
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    assert there == listed | {"SHA256SUMS", "study.json"}
    assert not [name for name in there if "notes" in name]
    assert read_signed(folder / "study.json").verify() == study


def test_what_is_not_exported(trimask: Run, tmp_path: Path, page: Path, study_file: Path, made: Path) -> None:
    out = tmp_path / "elsewhere"

    def refused(study: Path, *more: Any) -> str:
        done = trimask("web", "export", study, "--out", out, "--page", page, *more)
        assert done.status != 0
        assert not out.exists()
        return " ".join(done.err.split())

    assert "has no [web]" in refused(made / "study.json")
    assert "as devices get it" in refused(tmp_path / "study.json")
    lacking = read_signed(study_file)
    (tmp_path / "lacking.json").write_text(type(lacking)(lacking.study, lacking.approvals[1:]).to_json())
    assert "not approved yet" in refused(tmp_path / "lacking.json")
    (page / "page" / "main.js").write_text("changed()")
    assert "names another page" in refused(study_file)


def test_a_site_is_not_written_over_unasked(trimask: Run, site: Path, page: Path, study_file: Path) -> None:
    command = ("web", "export", study_file, "--out", site, "--page", page)
    assert "there already" in trimask(*command).err
    assert trimask(*command, "--replace").status == 0


@pytest.mark.parametrize("server", ["nginx", "caddy"])
def test_headers_narrow_the_policy_to_the_studys_nodes(
    trimask: Run, page: Path, study_file: Path, server: str
) -> None:
    told = trimask("web", "export", study_file, "--page", page, "--headers", server).out
    nodes = [
        "https://127.0.0.1:7412",
        "https://127.0.0.1:7413",
        "https://127.0.0.1:7414",
        "https://127.0.0.1:7415",
    ]
    assert f"connect-src 'self' {' '.join(nodes)};" in told
    assert "frame-ancestors 'none'" in told
    assert "https:;" not in told
    # Compressed, few round trips, kept where it never changes; what leads nowhere is answered, and %23 mended.
    for said in ("gzip", "max-age=31536000, immutable", "no-cache", "404.html", r"/?#([\w.-]+)$", "302"):
        assert said in told
    assert ("http2" in told) == (server == "nginx")  # Caddy speaks it by itself
    told = trimask("web", "export", study_file, "--page", page, "--headers", "nginx", "--json").out
    headers = json.loads(told)["headers"]
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.fixture
def served(site: Path, served_port: int) -> Iterator[str]:
    with site_server(site, served_port) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://localhost:{served_port}"
        server.shutdown()
        thread.join()


def test_a_site_is_served_as_browsers_want_it(served: str, site: Path) -> None:
    (folder,) = (site / "s").iterdir()
    with urllib.request.urlopen(f"{served}/s/{folder.name}") as answer:  # noqa: S310 - our own, redirected
        assert answer.url.endswith(f"/s/{folder.name}/")
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert b"importmap" in answer.read()
        assert answer.headers["Cache-Control"] == "no-cache"
    (script,) = folder.glob("app.*.js")
    with urllib.request.urlopen(f"{served}/s/{folder.name}/{script.name}") as answer:  # noqa: S310
        assert answer.headers["Content-Type"] == "text/javascript"
        assert "immutable" in answer.headers["Cache-Control"]
    for link in (f"{folder.name}%23AbC-_1", f"{folder.name}/%23AbC-_1"):  # as some messages spoil it
        with urllib.request.urlopen(f"{served}/s/{link}") as answer:  # noqa: S310
            assert answer.url == f"{served}/s/{folder.name}/#AbC-_1"
    for path in ("/s/", "/", "/s/../../study.seed", "/study.json"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(served + path)  # noqa: S310
        assert refused.value.code == 404
        assert refused.value.read() == (folder / "404.html").read_bytes()


def test_a_link_to_a_page_leads_the_app_to_the_study(served: str, study_file: Path, site: Path) -> None:
    """`trimask-client join` and the app read study.json beside the page, and check it by the link's hash."""
    signed = read_signed(study_file)
    link = Link.parse(str(Link(served, signed.study.id)))
    assert fetch_linked(link) == signed
    (folder,) = (site / "s").iterdir()
    for text, said in (("{}", "not a study"), (signed.to_json().replace("Blood", "Other"), "another study")):
        (folder / "study.json").write_text(text)
        with pytest.raises(StudyError, match=said):
            fetch_linked(link)
    (folder / "study.json").unlink()
    with pytest.raises(StudyError, match="HTTP status 404"):
        fetch_linked(link)


def test_a_host_that_the_study_does_not_name(served: str, study_file: Path, site: Path) -> None:
    """The right study under a host of somebody else's: refused, although every byte of it is right."""
    signed = read_signed(study_file)
    link = Link(served.replace("localhost", "127.0.0.1"), signed.study.id)
    with pytest.raises(StudyError, match="does not name"):
        fetch_linked(link)


def test_a_host_is_looked_at(trimask: Run, served: str, study_file: Path, site: Path) -> None:
    from trimask_cli.site.hosting import check_files, from_host

    study = read_signed(study_file).study
    assert "index.html" in check_files(study, from_host(study, served))
    (folder,) = (site / "s").iterdir()
    assert trimask("web", "check", study_file, "--folder", folder).status == 0
    for name in (*(path.name for path in folder.glob("app.*.js")), "index.html", "404.html", "SHA256SUMS"):
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(kept + b" ")
        with pytest.raises(VerificationError, match=name.rpartition("/")[2]):
            check_files(study, from_host(study, served))
        done = trimask("web", "check", study_file, "--folder", folder)
        assert done.status != 0
        (folder / name).write_bytes(kept)
    with pytest.raises(ConfigError, match="the study names"):
        from_host(study, "https://elsewhere.example")


def test_links_are_to_the_page(trimask: Run, study_file: Path, served_port: int, tmp_path: Path) -> None:
    study = read_signed(study_file).study
    assert trimask("study", "invite", study_file).out.strip() == str(Link(HOST, study.id))
    other = f"http://localhost:{served_port}"
    assert trimask("study", "invite", study_file, "--host", other).out.strip() == str(Link(other, study.id))
    for_app = trimask("study", "invite", study_file, "--app").out.strip()
    assert for_app == str(Link(study.collector.address, study.id))
    assert for_app.startswith("trimask://")
    assert "the study names" in trimask("study", "invite", study_file, "--host", "https://other.example").err
    sheet = tmp_path / "sheet.html"
    assert trimask("study", "invite", study_file, "--sheet", sheet).status == 0
    assert f"opens {Link(HOST, study.id).page} in the browser" in sheet.read_text()


@pytest.mark.skipif(not (ROOT / "client/web/index.html").exists(), reason="the page is not in this tree")
def test_the_page_that_comes_with_it(trimask: Run, tmp_path: Path) -> None:
    """Whole, small, the same from a copy elsewhere, and without anything from other hosts."""
    files = page_of(ROOT / "client" / "web")
    told = json.loads(trimask("web", "check", "--json").out)
    assert told["page_sha256"] == page_hash(files)
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "client" / "web", copy, ignore=shutil.ignore_patterns("node_modules"))
    assert trimask("web", "check", "--page", copy).out.strip() == told["page_sha256"]
    assert (
        len(files) == 9
    )  # the page, its script, look and sign, four languages, and what is said of a wrong link
    assert not re.search(rb'(?:src|href)="(?:https?:)?//', files["index.html"])

"""docs/embed.md, every block as pasted: a page of one's own in Chromium, backends, an app; on a real cluster.

The npm package is packed and installed in clean folders from its file, as a stranger would.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright

from scripts import npm_package
from trimask_browser import ARGUMENTS, CHROMIUM, needs_browser
from trimask_cli.site.hosting import check_files, from_host, site_server
from trimask_client import Gateway
from trimask_core.study.party import Web
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Link
from trimask_core.submit.submission import Receipt, read_receipt
from trimask_https import PAGE_HASH
from trimask_lab import Lab
from trimask_moments import moments_people, open_moments
from trimask_pages import ROOT, page_blocks
from trimask_patience import patience, until
from trimask_server.local.cluster import free_base_port
from trimask_terminal.program import main
from trimask_web import REPOSITORY, development_package, node, run_node, type_checker

HOST = Web(("https://survey.example",), PAGE_HASH)
SLEEP = Schema((Attribute("hours", "continuous", 0, 24), Attribute("active", "binary")))
NAMED = re.compile(r"^(?://|#|<!--)\s*([\w.]+\.\w+)", re.MULTILINE)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    lab = Lab(tmp_path_factory.mktemp("moments"), 2, 0, https=True)
    with lab.in_thread(request):
        yield lab


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return npm_package.pack(
        tmp_path_factory.mktemp("packed"), types=False
    )  # which take a compiler five seconds


def install(packed: Path, folder: Path) -> None:
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    command = ["npm", "install", "--offline", "--no-audit", "--no-fund", str(packed)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    listed = json.loads((folder / "package-lock.json").read_text())["packages"]
    assert set(listed) == {"", "node_modules/trimask-device"}, "it needs nothing at run time"


def named_blocks() -> dict[str, str]:
    """The page's files by the names that their first lines give them; its commands."""
    found = {}
    for block in page_blocks("docs/embed.md"):
        name = "commands" if block.language == "sh" else NAMED.search(block.text)[1]  # type: ignore[index]
        assert name not in found
        found[name] = block.text
    return found


BLOCKS = named_blocks()


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).write_text(BLOCKS[name])


def held(lab: Lab, signed: SignedStudy) -> list[int]:
    return [len(lab.rows(name, signed.study.id)) for name in ("R1", "R2")]


def sleep_study(lab: Lab, web: Web = HOST, **changes: Any) -> SignedStudy:
    return open_moments(lab, SLEEP, release_rows=64, web=web, **changes)


def post(port: int, person: str, answers: dict[str, object]) -> tuple[int, str]:
    body = json.dumps({"person": person, "answers": answers}).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", body, patience(60)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@contextlib.contextmanager
def backend(command: list[str], folder: Path, **environment: str) -> Iterator[int]:
    """One that listens; killed at the end, as power cuts do."""
    port = free_base_port(1)
    with subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PORT": str(port), **environment}
    ) as process:

        def there() -> bool:
            assert process.poll() is None
            with contextlib.suppress(urllib.error.URLError):
                post(port, "nobody", {})
                return True
            return False

        try:
            until(there)
            yield port
        finally:
            process.send_signal(signal.SIGKILL)


def takes_part(lab: Lab, signed: SignedStudy, command: list[str], folder: Path, **environment: str) -> None:
    """Bad answers are named; killed while a provider is away it goes on with the same submission; nobody counts twice."""
    answers = {"hours": 7.5, "active": True}
    lab.stop("R2")
    try:
        with backend(command, folder, **environment) as port:
            assert post(port, "4711", {"hours": 25, "active": True})[0] == 400
            status, why = post(port, "4711", answers)
            assert (status, held(lab, signed)[0]) == (202, 1)
            assert "R2" in why
    finally:
        lab.start("R2")
    with backend(command, folder, **environment) as port:
        status, receipt = post(port, "4711", answers)
        assert status == 200
        assert post(port, "4711", answers) == (200, receipt)
        Receipt.from_json(receipt).verify(signed.study)
        assert post(port, "4712", answers)[0] == 200
    assert held(lab, signed) == [2, 2]
    assert "4711" not in str(list(folder.rglob("*")))


@needs_browser
def test_a_page_of_one_s_own(lab: Lab, packed: Path, tmp_path: Path) -> None:
    """Bundled, named in the study by its hash, served with the printed policy; a person's answers reach every provider, and
    what the app around the page is handed is the receipt."""
    page, site = tmp_path / "page", tmp_path / "site"
    page.mkdir()
    install(packed, page)
    write(page, "index.html", "main.js")
    packages = development_package("esbuild").parent
    for name in ("esbuild", "@esbuild", ".bin"):
        (page / "node_modules" / name).symlink_to(packages / name)
    got, made, hashed = BLOCKS["commands"].splitlines()
    assert got == "npm i trimask-device esbuild"
    shell = f"export PATH={Path(sys.executable).parent}:$PATH; {made} && {hashed}"
    built = subprocess.run(["bash", "-ec", shell], cwd=page, check=True, capture_output=True, text=True)
    port = free_base_port(1)
    origin = f"http://localhost:{port}"
    signed = sleep_study(lab, Web((origin,), built.stdout.split()[-1]))
    (tmp_path / "study.json").write_text(signed.to_json())
    export = ["web", "export", str(tmp_path / "study.json"), "--page", str(page / "dist"), "--out", str(site)]
    assert main(export) == 0
    server = site_server(site, port)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        assert check_files(signed.study, from_host(signed.study, origin)) == ["index.html", "main.js"]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            kept = take_part(browser, str(Link(origin, signed.study.id)))
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
    Receipt.from_json(kept).verify(signed.study)
    assert held(lab, signed) == [1, 1]


def take_part(browser: Any, link: str) -> str:
    """What a person does there, with an answer out of bounds first; what the app around it keeps."""
    context = browser.new_context(ignore_https_errors=True)
    complaints: list[str] = []
    kept: list[str] = []
    context.expose_function("keepIt", lambda receipt: kept.append(receipt))
    context.add_init_script("globalThis.SurveyApp = { keep: (receipt) => globalThis.keepIt(receipt) }")
    page = context.new_page()
    page.on(
        "console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(link)
    expect(page.locator("h1")).to_have_text("Moments", timeout=1000 * patience(60))
    page.get_by_label("Hours of sleep").fill("25")
    page.get_by_label("I do sports").check()
    page.get_by_role("button").click()
    expect(page.locator("output")).to_contain_text("hours")
    page.get_by_label("Hours of sleep").fill("7.5")
    page.get_by_role("button").click()
    expect(page.locator("output")).to_contain_text('"providers"', timeout=1000 * patience(60))
    shown = page.locator("output").text_content()
    page.reload()  # it has the receipt, and asks nothing again
    expect(page.locator("output")).to_have_text(shown, timeout=1000 * patience(60))
    expect(page.locator("form")).to_be_hidden()
    context.close()
    assert complaints == []
    assert kept == [shown, shown]
    return kept[0]


def test_a_backend_in_node(lab: Lab, packed: Path, tmp_path: Path) -> None:
    install(packed, tmp_path)
    write(tmp_path, "backend.mjs")
    signed = sleep_study(lab)
    given = {
        "COLLECTOR": signed.study.collector.https,
        "STUDY": signed.study.id.hex(),
        "NODE_EXTRA_CA_CERTS": str(lab.owner / "ca.pem"),
    }
    takes_part(lab, signed, [node(), "backend.mjs"], tmp_path, **given)


def test_a_backend_in_python(lab: Lab, tmp_path: Path) -> None:
    write(tmp_path, "backend.py", "nightly.py")
    signed = sleep_study(lab)
    (tmp_path / "study.device.json").write_text(signed.to_json())
    takes_part(lab, signed, [sys.executable, "backend.py"], tmp_path, STUDY=signed.study.id.hex())
    people = [(f"{6 + i / 10}", str(i % 2)) for i in range(20)]
    with (tmp_path / "answers.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("hours", "active"), *people])
    done = subprocess.run(
        [sys.executable, "nightly.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "20 accepted\n"
    assert held(lab, signed) == [22, 22]
    with (tmp_path / "sent" / "receipts.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            read_receipt(row["receipt"]).verify(signed.study)


PRESSED = """
import main
from kivy.clock import Clock
app = main.SleepApp()

def press(_):
    app.button.dispatch("on_release")
    assert "hours" in app.said.text, app.said.text
    app.hours.text = "7.5"
    app.button.dispatch("on_release")
    Clock.schedule_interval(look, 0.02)

def look(_):
    if "signed for it" in app.said.text:
        app.stop()

Clock.schedule_once(press)
app.run()
"""


def test_a_kivy_app(lab: Lab, tmp_path: Path) -> None:
    write(tmp_path, "main.py")
    (tmp_path / "config").mkdir()
    signed = sleep_study(lab)
    (tmp_path / "study.device.json").write_text(signed.to_json())
    settings = {
        "SDL_VIDEODRIVER": "offscreen", "KIVY_NO_ARGS": "1", "KIVY_NO_FILELOG": "1", "KIVY_CLIPBOARD": "dummy",
        "KIVY_HOME": str(tmp_path / "kivy"), "XDG_CONFIG_HOME": str(tmp_path / "config"), "PYTHONPATH": ".",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PRESSED],
        cwd=tmp_path, env={**os.environ, **settings}, capture_output=True, text=True, check=False, timeout=patience(120),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert held(lab, signed) == [1, 1]


@pytest.mark.slow
def test_the_android_activity_is_java(tmp_path: Path) -> None:
    """Against stand-ins of Android's classes; what it hands over is what the page calls (`take_part`)."""
    if shutil.which("javac") is None:
        pytest.skip("no javac here")
    write(tmp_path, "SurveyActivity.java")
    stand_ins = ROOT / "tests" / "mobile" / "android_stand_ins"
    command = [
        "javac",
        "-Xlint:-options",
        "-sourcepath",
        stand_ins,
        "-d",
        tmp_path / "out",
        "SurveyActivity.java",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'addJavascriptInterface(this, "SurveyApp")' in BLOCKS["SurveyActivity.java"]
    assert "SurveyApp?.keep(" in BLOCKS["main.js"]


@pytest.mark.slow
def test_a_typescript_program(lab: Lab, tmp_path: Path) -> None:
    """Type-checked against the package, and run: a receipt of every provider, which the release counts."""
    install(npm_package.pack(tmp_path), tmp_path)
    shutil.copy(REPOSITORY / "tests" / "web" / "npm_program.ts", tmp_path)
    options = ["--strict", "--target", "es2022", "--module", "nodenext"]
    command = [node(), str(type_checker()), *options, "npm_program.ts"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout == ""
    signed = open_moments(lab, release_rows=12, ball_norm=2.0, web=HOST)
    person, *others = moments_people(12)
    given = [signed.study.collector.https, signed.study.id.hex(), json.dumps(person)]
    trust = {"NODE_EXTRA_CA_CERTS": str(lab.owner / "ca.pem")}
    sent = json.loads(run_node(tmp_path / "npm_program.js", *given, environment=trust))
    receipt = Receipt.from_json(sent.pop("receipt"))
    receipt.verify(signed.study)
    assert sent == {
        "title": signed.study.title, "coalitions": sent["coalitions"], "lasting": False,  # node keeps nothing in memory
        "refused": next(iter(person)), "state": "sent",
    }  # fmt: skip
    with Gateway(signed) as gateway:
        assert all(isinstance(one, Receipt) for _, one in gateway.submit_many(others))
    assert lab.close(signed.study).published_rows == 12
    with pytest.warns(UserWarning, match="shrunk to the study's ball"):
        (dataset,) = lab.datasets(signed.study)
    assert dataset.standing(receipt) == "counted"
    assert dataset.manifest.counts["sent_together"] == {"R1": 11, "R2": 11}

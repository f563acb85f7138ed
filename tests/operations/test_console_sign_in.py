"""The console behind an authenticating proxy, as deploy/ has it: Apache with mod_auth_openidc, an identity
provider, and a browser. Slow: it needs `apache2`, `libapache2-mod-auth-openidc` and, from the package index, a provider."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

from trimask_browser import ARGUMENTS, CHROMIUM, needs_browser
from trimask_cli import owner
from trimask_core.basics.clock import SystemClock
from trimask_patience import patience, until
from trimask_server.local.cluster import free_base_port

SETTINGS = Path(__file__).parents[2] / "deploy" / "console-apache.conf"
MODULES = Path("/usr/lib/apache2/modules")
LOADED = (
    "mpm_event", "authn_core", "authz_core", "authz_user", "headers", "proxy", "proxy_http", "ssl", "socache_shmcb",
    "auth_openidc",
)  # fmt: skip
PEOPLE = ({"sub": "ada", "groups": ["study-owners"]}, {"sub": "bob", "groups": ["visitors"]})

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (MODULES / "mod_auth_openidc.so").exists(), reason="no mod_auth_openidc here"),
]


def listens(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An identity provider with two people; the port of it."""
    folder = tmp_path_factory.mktemp("provider")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", "oidc-provider-mock"], check=True)
    port = free_base_port(1)
    users = [word for person in PEOPLE for word in ("--user-claims", json.dumps(person))]
    with subprocess.Popen(
        [str(folder / "bin" / "oidc-provider-mock"), "--port", str(port), *users]
    ) as running:
        until(lambda: listens(port))
        yield port
        running.terminate()


@pytest.fixture
def proxy(ops_lab: Any, provider: int, tmp_path: Path) -> Iterator[tuple[str, Any]]:
    """Apache with the very settings in front of the collector; its address and the study."""
    signed = ops_lab.open_study("Behind a proxy")
    until_ms = SystemClock().now_ms() + 3_600_000
    token, _ = owner.new_token(signed.study, ops_lab.folder / "owner", "proxy", ["owner"], until_ms, None)
    port = free_base_port(1)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
         "-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    (tmp_path / "owner-token.conf").write_text(
        f'Define CONSOLE_COOKIE "trimask_owner_{signed.study.id.hex()[:16]}={token}"\n'
    )
    settings = SETTINGS.read_text(encoding="utf-8")
    for theirs, ours in {
        "https://login.example.org": f"http://127.0.0.1:{provider}",
        "*:443": f"*:{port}",
        "https://console.example.org": f"https://localhost:{port}",
        "console.example.org": "localhost",
        "http://127.0.0.1:7402": ops_lab.http("collector"),
        "/etc/apache2/console": str(tmp_path),
    }.items():
        assert theirs in settings
        settings = settings.replace(theirs, ours)
    modules = [f"LoadModule {name}_module {MODULES / f'mod_{name}.so'}" for name in LOADED]
    config = tmp_path / "apache.conf"
    config.write_text(
        "\n".join([f'ServerRoot "{tmp_path}"', f"PidFile {tmp_path / 'pid'}", f"ErrorLog {tmp_path / 'log'}",
                   f"Listen 127.0.0.1:{port}", "ServerName localhost", "User nobody", "Group nogroup", *modules, settings])
    )  # fmt: skip
    tmp_path.chmod(0o755)
    command = ["apache2", "-f", str(config), "-DFOREGROUND"]
    with subprocess.Popen(command, env=os.environ | {"APACHE_RUN_DIR": str(tmp_path)}) as running:
        with suppress(AssertionError):
            until(lambda: listens(port) or running.poll() is not None)
        assert running.poll() is None, (tmp_path / "log").read_text()
        yield f"https://localhost:{port}", signed
        running.terminate()


@needs_browser
def test_who_the_institution_lets_in_sees_the_console_and_nobody_else(
    proxy: tuple[str, Any], ops_lab: Any, tmp_path: Path
) -> None:
    address, signed = proxy
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for person in PEOPLE:
            page = browser.new_context(ignore_https_errors=True).new_page()
            page.set_default_timeout(patience(20) * 1000)
            page.goto(f"{address}/console")
            assert "/oauth2/authorize" in page.url  # nobody is shown anything before
            page.fill("input[type=text][name=sub]", str(person["sub"]))
            page.click("button:has-text('Authorize')")
            page.wait_for_load_state()
            text = page.inner_text("body")
            if person["sub"] == "ada":
                assert page.url == f"{address}/console"
                page.click(f"text={signed.study.title}")
                page.wait_for_load_state()
                assert signed.study.title in page.inner_text("body")
                assert page.url.startswith(f"{address}/console/")
                if keep := os.environ.get("TRIMASK_PICTURES"):
                    page.screenshot(path=Path(keep) / "console-behind-proxy.png", full_page=True)
                # No cookie of ours is in the browser: the proxy has the token.
                assert not [one for one in page.context.cookies() if one["name"].startswith("trimask")]
            else:
                assert signed.study.title not in text
        browser.close()
    # What the proxy does not pass on stays inside.
    with urllib.request.urlopen(f"{ops_lab.http('collector')}/metrics", timeout=patience(10)) as answer:  # noqa: S310
        assert answer.status == 200

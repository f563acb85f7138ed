"""Every vector, and the survey page's whole way, in Firefox: `make web-firefox`. Needs firefox or firefox-esr.

Not a test of `make test`, which has Chromium. Firefox is driven by its own WebDriver BiDi server; nothing else is needed.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from test_web_device import IN_A_PAGE, NOT_A_DEVICE_S, VECTORS

from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_survey import DEFINITION, SurveyLab
from trimask_web import serve_repository

# Answers whatever is asked on the view shown: the first of a choice, a value by the kind of field, and goes on.
ANSWER = """() => {
  const values = { time: "23:30", range: "6" };
  const parts = { day: "17", month: "5", year: "1984" };
  const seen = new Set();
  for (const field of document.querySelectorAll("main input, main select")) {
    if (["radio", "checkbox"].includes(field.type)) {
      if (!seen.has(field.name)) field.click();
      seen.add(field.name);
      continue;
    }
    field.value = parts[field.dataset.part] ?? values[field.type] ?? (field.id === "q-night_shifts" ? "4" : "217.5");
    for (const name of ["input", "change"]) field.dispatchEvent(new Event(name, { bubbles: true }));
  }
}"""


class Firefox:
    """One window of it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.number, self.window = socket, 0, ""
        self.complaints: list[str] = []

    async def do(self, method: str, **values: Any) -> Any:
        """A command of the protocol; what was complained of meanwhile is kept."""
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": values})
        while True:
            found = await self.socket.receive_json(timeout=120)
            if found.get("id") == self.number:
                if found["type"] == "error":
                    raise RuntimeError(f"{method}: {found['error']}: {found['message']}")
                return found["result"]
            if found.get("method") == "log.entryAdded" and found["params"]["level"] in ("error", "warn"):
                self.complaints.append(found["params"]["text"])

    async def call(self, function: str, *given: Any) -> Any:
        """A function's result, by way of JSON."""
        text = f"(async () => JSON.stringify(await ({function})(...{json.dumps(given)})) ?? 'null')()"
        found = await self.do(
            "script.evaluate", expression=text, target={"context": self.window}, awaitPromise=True
        )
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"]["value"])

    async def go(self, address: str) -> None:
        await self.do("browsingContext.navigate", context=self.window, url=address, wait="complete")

    async def see(self, heading: str) -> None:
        """Wait for a view."""
        shown = ""
        for _ in range(150):
            shown = await self.call("() => document.querySelector('h1')?.textContent ?? ''")
            if shown == heading:
                return
            await asyncio.sleep(0.2)
        raise RuntimeError(f"waited for {heading!r}, and saw {shown!r}")

    async def press(self, name: str) -> None:
        pressed = await self.call(
            "(name) => { const one = [...document.querySelectorAll('button')].find((b) => b.textContent === name);"
            " one?.click(); return Boolean(one); }",
            name,
        )
        if not pressed:
            raise RuntimeError(f"no button {name!r}")


@asynccontextmanager
async def firefox() -> AsyncIterator[Firefox]:
    """A new one, with a profile of its own."""
    program = shutil.which("firefox") or shutil.which("firefox-esr")
    if program is None:
        raise SystemExit("no firefox on this machine: apt-get install firefox-esr")
    port = free_base_port(1)
    with tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True) as profile:
        running = await asyncio.create_subprocess_exec(
            program, "--headless", "--no-remote", "--profile", profile, f"--remote-debugging-port={port}",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with aiohttp.ClientSession() as session:
                async with await connected(session, f"ws://127.0.0.1:{port}/session") as socket:
                    found = Firefox(socket)
                    wanted = {"alwaysMatch": {"acceptInsecureCerts": True}}
                    made = await found.do("session.new", capabilities=wanted)
                    print("Firefox", made["capabilities"]["browserVersion"])
                    found.window = (await found.do("browsingContext.getTree"))["contexts"][0]["context"]
                    await found.do("session.subscribe", events=["log.entryAdded"])
                    yield found
        finally:
            running.terminate()
            await running.wait()


async def connected(session: aiohttp.ClientSession, address: str) -> aiohttp.ClientWebSocketResponse:
    for _ in range(300):
        try:
            return await session.ws_connect(address, max_msg_size=0)
        except aiohttp.ClientError:
            await asyncio.sleep(0.2)
    raise SystemExit("firefox does not answer")


async def main() -> None:
    async with firefox() as one:
        with serve_repository() as origin:
            await one.go(f"{origin}/client/web/index.html")
            found = await one.call(IN_A_PAGE.replace("import('/", f"import('{origin}/"))
        wrong = {name: result for name, result in found.items() if not isinstance(result, int) or not result}
        if wrong or set(found) != {path.name for path in VECTORS.glob("*.json")} - NOT_A_DEVICE_S:
            raise SystemExit(f"vectors: {wrong or set(found)}")
        print(f"{sum(found.values())} vectors in {len(found)} files")
        one.complaints.clear()  # of a page without a link
        lab = SurveyLab(Path(tempfile.mkdtemp()))
        with ThreadCluster(lab.folder) as lab.cluster, lab.host():
            await the_way(one, lab)
    if one.complaints:
        raise SystemExit(f"it complained: {one.complaints}")


async def the_way(one: Firefox, lab: SurveyLab) -> None:
    signed = lab.web_study(DEFINITION)
    await one.do("browsingContext.setViewport", context=one.window, viewport={"width": 390, "height": 800})
    await one.go(lab.link(signed))
    await one.see("How do you sleep?")
    await one.press("Take part")
    await one.see("Your consent")
    await one.call(ANSWER)
    await one.press("Sign and continue")
    while await one.call("() => document.querySelector('h1').textContent") != "Check your answers":
        await one.call(ANSWER)
        await one.press("Next")
        wrong = await one.call(
            "() => [...document.querySelectorAll('[role=alert]:not([hidden])')].map((e) => e.textContent).join('')"
        )
        if wrong:
            raise SystemExit(wrong)
    await one.press("Send")
    await one.see("Sent. Thank you!")
    held = [len(lab.rows(name, signed.study.id)) for name in ("R1", "R2", "R3")]
    if held != [1, 1, 1]:
        raise SystemExit(f"parts at R1, R2, R3: {held}")
    print("sent, and signed for by three")


if __name__ == "__main__":
    asyncio.run(main())

"""Screenshots of the collector's status page and of the owner's console, for docs/images: a real cluster and browser.

python docs/figures/make_status_images.py
"""

from __future__ import annotations

import dataclasses
import io
import shutil
import tempfile
import time
import tomllib
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from trimask_cli import owner
from trimask_cli.invitations import make_invitations
from trimask_cli.study_file import bundled_definition
from trimask_client import Client
from trimask_core.basics.errors import Refused
from trimask_core.basics.randomness import SystemRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.party import admission_key, read_secret
from trimask_core.study.signed import SignedStudy, approve
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_theory.planning.study_definition import load_definition
from trimask_theory.planning.study_plan import create_study

IMAGES = Path(__file__).parents[1] / "images"
BROWSER = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
ANSWERS = {"systolic": 128, "age": 44, "bmi": 24.5, "salt": 9.0, "smoker": "no", "activity": "low"}
ORGANISATIONS = {
    "collector": "University of Trondheim",
    "R1": "Statistics Office",
    "R2": "Red Cross",
    "R3": "Civic Trust",
}


def open_study(folder: Path) -> SignedStudy:
    """The bundled example, smaller, approved by everybody."""
    base = free_base_port(18)
    places = [
        dataclasses.replace(place, organisation=ORGANISATIONS.get(place.name, f"Institute {place.name}"))
        for place in node_places(3, 2, "127.0.0.1", base, http=True)
    ]
    parties = make_keys(folder, places)
    study = create_study(
        load_definition(bundled_definition()).changed(block_rows=32, release_rows=96, admission="invited"),
        parties["collector"],
        [parties[f"R{k}"] for k in (1, 2, 3)],
        [parties[f"L{j}"] for j in (1, 2)],
        (folder / "authority" / "ca.pem").read_text(),
        int(time.time() * 1000),
        SystemRandom(),
        admission_key(folder / "owner").public,
    )
    signed = SignedStudy(study)
    for name in parties:
        signed = signed.with_approval(
            approve(study, SigningKey(read_secret(folder / name / "identity.key")), 1)
        )
    return signed


def fill(signed: SignedStudy, folder: Path) -> None:
    """Some blocks, and some refusals."""
    until = int(time.time() * 1000) + 30 * 86_400_000
    links = make_invitations(signed.study, folder / "owner", 119, until, lambda _: None)
    for link in links[:118]:
        with Client(signed, invitation=link.invitation, attempts=1) as client:
            client.submit(ANSWERS)
    with Client(signed, invitation=links[118].invitation, attempts=1) as client:
        good = client.prepare(ANSWERS)
        for _ in range(3):
            try:
                client.send(dataclasses.replace(good, sealed=(bytes(120), *good.sealed[1:])))
            except Refused:
                continue


def sign_in(view: Page, address: str, signed: SignedStudy, folder: Path) -> None:
    """To the console, and note how many were invited."""
    until = int(time.time() * 1000) + 86_400_000
    token, _ = owner.new_token(signed.study, folder / "owner", "the owner", ["owner"], until, None)
    view.goto(f"{address}/console")
    view.get_by_label("The owner's token").fill(token)
    view.get_by_role("button", name="Sign in").click()
    if "not noted" in view.locator("main").inner_text():
        view.get_by_label("Note invitations made").fill("160")
        view.get_by_label("that end on").fill("2099-01-31")
        view.get_by_role("button", name="Note").click()


def main() -> None:
    """Write the images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signed = open_study(folder)
        with ThreadCluster(folder) as cluster:
            owner.open_study(signed, folder / "owner")
            fill(signed, folder)
            while owner.study_status(signed.study).pooled_blocks < 2:
                time.sleep(0.1)
            cluster.stop("L2")
            settings = tomllib.loads((folder / "collector" / "node.toml").read_text())
            address = f"http://{settings['http_listen']}"
            page = f"{address}/studies/{signed.study.id.hex()}"
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=BROWSER)
                for label, width, height, scheme in (
                    ("desktop", 1000, 1300, "light"), ("phone", 360, 1600, "dark"),
                ):  # fmt: skip
                    view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                    view.goto(page)
                    save(view, f"status-{label}", width, height)
                    sign_in(view, address, signed, folder)
                    save(view, f"console-{label}", width, height)
                browser.close()


def save(view: Page, name: str, width: int, height: int) -> None:
    """The top of a page as a small picture: 32 colours are plenty for text, and a quarter of the bytes."""
    image = Image.open(io.BytesIO(view.screenshot(full_page=True))).crop((0, 0, width, height))
    image.convert("RGB").quantize(32).save(IMAGES / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()

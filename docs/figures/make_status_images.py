"""Screenshots of the collector's status page, for docs/images: a real cluster, a real browser.

python docs/figures/make_status_images.py
"""

from __future__ import annotations

import dataclasses
import io
import shutil
import tempfile
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from trimask_cli import owner
from trimask_cli.study_file import bundled_definition
from trimask_client import Client
from trimask_core.errors import Refused
from trimask_core.identity import SigningKey
from trimask_core.party_files import read_secret
from trimask_core.randomness import SystemRandom
from trimask_core.signed_study import SignedStudy, approve
from trimask_server.local.cluster import ThreadCluster, free_base_port
from trimask_server.local.keys import make_keys, node_places
from trimask_theory.study_plan import create_study, load_definition

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
        load_definition(bundled_definition()).changed(block_rows=32, release_rows=96),
        parties["collector"],
        [parties[f"R{k}"] for k in (1, 2, 3)],
        [parties[f"L{j}"] for j in (1, 2)],
        (folder / "authority" / "ca.pem").read_text(),
        int(time.time() * 1000),
        SystemRandom(),
    )
    signed = SignedStudy(study)
    for name in parties:
        signed = signed.with_approval(
            approve(study, SigningKey(read_secret(folder / name / "identity.key")), 1)
        )
    return signed


def fill(signed: SignedStudy) -> None:
    """Some blocks, and some refusals."""
    with Client(signed, attempts=1) as client:
        for _ in range(118):
            client.submit(ANSWERS)
        good = client.prepare(ANSWERS)
        for _ in range(3):
            try:
                client.send(dataclasses.replace(good, sealed=(bytes(120), *good.sealed[1:])))
            except Refused:
                continue


def main() -> None:
    """Write the images."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        signed = open_study(folder)
        with ThreadCluster(folder) as cluster:
            owner.open_study(signed, folder / "owner")
            fill(signed)
            while owner.study_status(signed.study).pooled_blocks < 2:
                time.sleep(0.1)
            cluster.stop("L2")
            page = f"http://127.0.0.1:{cluster.nodes['collector'].http.port}/studies/{signed.study.id.hex()}"
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=BROWSER)
                for label, width, height, scheme in (
                    ("desktop", 1000, 1300, "light"), ("phone", 360, 1600, "dark"),
                ):  # fmt: skip
                    view = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                    view.goto(page)
                    shot = view.screenshot(full_page=True)
                    image = Image.open(io.BytesIO(shot)).crop((0, 0, width, height))
                    # 32 colours are plenty for text, and a quarter of the bytes.
                    image.convert("RGB").quantize(32).save(IMAGES / f"status-{label}.png", optimize=True)
                browser.close()


if __name__ == "__main__":
    main()

"""The npm package `trimask-device`, packed: python scripts/npm_package.py FOLDER prints the file it wrote there.

It is client/web/device, form and node as they stand, with types that the TypeScript of client/web writes from the JSDoc, and
the page's store (`openStore`). Nothing of it is built: a bundler leaves out what is not imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
WEB = ROOT / "client" / "web"
INDEX = 'export * from "./device/index.js";\nexport { openStore } from "./page/store.js";\n'
OPTIONS = {
    "target": "es2022", "module": "nodenext", "lib": ["es2023", "dom", "dom.iterable", "dom.asynciterable"], "types": [],
    "allowJs": True, "declaration": True, "emitDeclarationOnly": True, "outDir": ".", "rootDir": ".", "strict": True,
}  # fmt: skip


def package_json() -> dict[str, object]:
    """What npm reads; the version is the repository's."""
    return {
        "name": "trimask-device",
        "version": (ROOT / "VERSION").read_text(encoding="utf-8").strip(),
        "description": "Take part in Trimask studies: answers are split among institutions, none is given them whole.",
        "license": json.loads((WEB / "package.json").read_text(encoding="utf-8"))["license"],
        "type": "module",
        "engines": {"node": ">=20"},
        "sideEffects": False,
        "exports": {
            ".": {"types": "./index.d.ts", "default": "./index.js"},
            "./form": {"types": "./form/form.d.ts", "default": "./form/form.js"},
            "./node": {"types": "./node/store.d.ts", "default": "./node/store.js"},
        },
        **_repository(),
    }


def _repository() -> dict[str, str]:
    """Where CI builds it; npm takes a provenance for no other."""
    server, name = (os.environ.get(f"GITHUB_{part}", "") for part in ("SERVER_URL", "REPOSITORY"))
    return {"repository": f"git+{server}/{name}.git"} if name else {}


def pack(folder: Path, *, types: bool = True) -> Path:
    """Write the package into a folder; its file."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        stage = Path(name)
        for part in ("device", "form", "node"):
            shutil.copytree(WEB / part, stage / part)
        (stage / "page").mkdir()
        shutil.copy(WEB / "page" / "store.js", stage / "page")
        for file in (ROOT / "LICENSE", WEB / "README.md"):
            shutil.copy(file, stage)
        (stage / "index.js").write_text(INDEX, encoding="utf-8")
        (stage / "package.json").write_text(json.dumps(package_json(), indent=2) + "\n", encoding="utf-8")
        if types:
            _declare(stage)
        command = ["npm", "pack", "--silent", "--pack-destination", str(folder.resolve())]
        packed = subprocess.run(command, cwd=stage, check=True, capture_output=True, text=True).stdout
    return folder / packed.split()[-1]


def _declare(stage: Path) -> None:
    """Types beside every module, from its JSDoc."""
    tsc = WEB / "node_modules" / "typescript" / "bin" / "tsc"
    if not tsc.exists():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=WEB, check=True, capture_output=True)
    settings = {"compilerOptions": OPTIONS, "files": ["index.js", "form/form.js", "node/store.js"]}
    (stage / "tsconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    subprocess.run(["node", str(tsc), "-p", "tsconfig.json"], cwd=stage, check=True)
    (stage / "tsconfig.json").unlink()


if __name__ == "__main__":
    print(pack(Path(sys.argv[1])))

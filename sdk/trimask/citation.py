"""How a dataset is cited: BibTeX with its id, the hash that names it, its guarantee, and the program that read it."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trimask.manifest import Manifest

__all__ = ["bibtex", "version"]

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def version() -> str:
    """The version of this package, as installed."""
    return metadata.version("trimask")


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))


def bibtex(manifest: Manifest, note: str = "") -> str:
    """One entry; `note` is put before what identifies the dataset."""
    study, promise = manifest.study, manifest.guarantee("public")
    when = datetime.fromtimestamp(manifest.published_ms / 1000, UTC)
    held = "no differential privacy (exact mode)" if promise is None else str(promise)
    author = study.collector.organisation or study.contact or "unknown"
    said = (
        f"{note} Dataset {manifest.dataset_id} of study {manifest.study_id}. Manifest SHA-256 {manifest.sha256}. "
        f"Guarantee: {held}. Read with trimask {version()}"
    )
    fields = {
        "author": f"{{{_latex(author)}}}",
        "title": f"{{{_latex(manifest.title)}}}, release {manifest.release}",
        "year": str(when.year),
        "month": str(when.month),
        "howpublished": f"Trimask dataset, suite {manifest.suite}, {manifest.rows} people",
        "note": _latex(said),
    }
    body = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{trimask-{manifest.dataset_id},\n{body}\n}}"

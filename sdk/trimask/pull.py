"""Pulling a dataset's files: in pieces, resumed where an earlier pull stopped, checked by hash at the end.

A file under way is called NAME.part. Its bytes are only trusted once the whole file's hash is the manifest's.
If a resumed file fails that, the part may have been spoilt on this machine, so it is fetched once more from
the start; a file fetched whole that fails it is the collector's fault, and is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from trimask.dataset import file_sha256
from trimask.errors import VerificationError
from trimask.manifest import FileEntry

__all__ = ["PIECE_BYTES", "Progress", "ReadPiece", "pull_file"]

PIECE_BYTES = 2 << 20

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes here so far and the bytes in all."""

ReadPiece = Callable[[str, int, int], bytes]
"""Given a file's name, an offset and the most bytes wanted, the bytes there; empty at the end of the file."""


def pull_file(entry: FileEntry, folder: Path, read: ReadPiece, progress: Progress | None = None) -> Path:
    """Have one file of the manifest in `folder`; nothing is read if it is there already."""
    path = folder / entry.name
    if path.is_file() and path.stat().st_size == entry.bytes and file_sha256(path) == entry.sha256:
        if progress is not None:
            progress(entry.name, entry.bytes, entry.bytes)
        return path
    part = folder / f"{entry.name}.part"
    resumed = part.exists() and 0 < part.stat().st_size <= entry.bytes
    if not resumed:
        part.unlink(missing_ok=True)
    found = _fetch(entry, part, read, progress)
    if resumed and found != entry.sha256:
        part.unlink()
        found = _fetch(entry, part, read, progress)
    if found != entry.sha256:
        part.unlink()
        raise VerificationError(f"{entry.name} is not the file the manifest was signed for; it was not kept")
    part.replace(path)
    return path


def _fetch(entry: FileEntry, part: Path, read: ReadPiece, progress: Progress | None) -> str:
    """The rest of the file; the SHA-256 of all of it, taken as pieces come so that nothing is read twice."""
    part.touch()
    digest = hashlib.sha256()
    with part.open("r+b") as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
        here = file.tell()
        if progress is not None:
            progress(entry.name, here, entry.bytes)
        while here < entry.bytes:
            wanted = min(PIECE_BYTES, entry.bytes - here)
            piece = read(entry.name, here, wanted)
            if not piece:
                raise VerificationError(
                    f"{entry.name} ended at {here:,} bytes where the manifest says {entry.bytes:,}"
                )
            if len(piece) > wanted:
                raise VerificationError(f"{entry.name}: the collector sent more than it was asked for")
            file.write(piece)
            digest.update(piece)
            here += len(piece)
            if progress is not None:
                progress(entry.name, here, entry.bytes)
    return digest.hexdigest()

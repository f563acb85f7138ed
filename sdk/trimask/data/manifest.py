"""The signed manifest of a dataset, and every check that needs nothing but the manifest.

The collector signs the JSON bytes as they are (context word "manifest"). Who the collector is comes from the
study inside, which every party of the study has signed; a researcher who knows the study's id can pin it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trimask.data.catalogue import Shown
from trimask_core.basics.encoding import read_json
from trimask_core.basics.errors import VerificationError
from trimask_core.crypto.identity import verify
from trimask_core.study.definition import Study
from trimask_core.study.derived import Column
from trimask_core.study.guarantee import Guarantee
from trimask_core.study.settings import SuiteName
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.inclusion import COUNTED_FILE

FORMAT = "trimask-manifest/1"
DATA_FILE = "dataset.parquet"
MOMENTS_FILE = "moments.json"
_DATASET_ID = re.compile(r"([0-9a-f]{12})-([1-9][0-9]{0,8})")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_YEAR_10000 = 253_402_300_800_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


def dataset_key(dataset_id: str) -> tuple[str, int]:
    """(start of the study's id, release number) of a dataset id; `VerificationError` if it is not one."""
    match = _DATASET_ID.fullmatch(dataset_id)
    if match is None:
        raise VerificationError(f"{dataset_id!r} is not a dataset id such as 3f2a9c01d4e5-1")
    return match[1], int(match[2])


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file of the dataset: its name, size and hash."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest(Shown):
    """A verified manifest: an object of this class has passed every check.

    Attributes
    ----------
    raw, signature : bytes
        What the collector signed, and its signature.
    data : mapping
        What it says.
    study : Study
        The study in it, whose approvals have been verified.

    Examples
    --------
    >>> import trimask
    >>> manifest = trimask.Dataset.open("out/demo").manifest
    >>> manifest.release, len(manifest.sha256)
    (1, 64)
    """

    raw: bytes
    signature: bytes
    data: Mapping[str, Any]
    study: Study

    @classmethod
    def read(cls, raw: bytes, signature: bytes, *, study_id: str | bytes | None = None) -> Manifest:
        """Check the approvals, the signature, the pinned study id and that all parts agree.

        Parameters
        ----------
        raw, signature : bytes
            As a collector sent them, or as they are in a folder.
        study_id : str or bytes, optional
            Pins the study: another one is refused.

        Returns
        -------
        Manifest

        Raises
        ------
        VerificationError
            Where anything does not agree.
        """
        try:
            data = read_json(raw)
            if data["format"] != FORMAT:
                raise VerificationError(f"the manifest is not of format {FORMAT}")
            study = SignedStudy.from_json(json.dumps(data["signed_study"])).verify()
            verify(study.collector.identity, "manifest", raw, signature, "the manifest")
            manifest = cls(raw, signature, data, study)
            _agree(manifest)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise VerificationError(f"the manifest cannot be read: {type(error).__name__} {error}") from None
        pinned = study_id.hex() if isinstance(study_id, bytes) else study_id
        if pinned is not None and pinned != manifest.study_id:
            raise VerificationError(f"the dataset is of study {manifest.study_id}, not of {pinned}")
        return manifest

    @property
    def dataset_id(self) -> str:
        """Such as 3f2a9c01d4e5-1."""
        return str(self.data["dataset_id"])

    @property
    def study_id(self) -> str:
        """SHA-256 id of the study, in hex."""
        return str(self.data["study_id"])

    @property
    def title(self) -> str:
        """The study's title."""
        return str(self.data["title"])

    @property
    def release(self) -> int:
        """Number of the release in its study, from 1."""
        return int(self.data["release"])

    @property
    def published_ms(self) -> int:
        """When it was published, milliseconds since 1970 UTC."""
        return int(self.data["published_ms"])

    @property
    def suite(self) -> SuiteName:
        """How it was collected: "rows" (masked rows are published) or "moments" (noisy totals are)."""
        return self.study.suite.name

    @property
    def data_file(self) -> str:
        """The name of the file with the rows, or with the totals."""
        return DATA_FILE if self.suite == "rows" else MOMENTS_FILE

    @property
    def rows(self) -> int:
        """Rows masked together; people whose reports were accepted, in the moments suite."""
        return int(self.data["rows"])

    @property
    def stored_rows(self) -> int:
        """Rows in the file: `rows`, or the number of columns for a compact release; none in the moments suite."""
        return int(self.data["stored_rows"]) if self.suite == "rows" else 0

    @cached_property
    def batch_ids(self) -> tuple[bytes, ...]:
        """The batches of reports in a release of the moments suite."""
        return tuple(bytes.fromhex(item) for item in self.data["batch_ids"])

    @property
    def sigma(self) -> float:
        """Standard deviation of the privacy noise, scaled units."""
        return float(self.data["sigma"])

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns, in the order of the file."""
        return tuple(Column(**column) for column in self.data["columns"])

    @cached_property
    def files(self) -> tuple[FileEntry, ...]:
        """The files."""
        return tuple(FileEntry(item["name"], item["bytes"], item["sha256"]) for item in self.data["files"])

    @property
    def previous(self) -> str | None:
        """SHA-256 of the manifest of the study's release before this one."""
        found = self.data["previous"]
        return None if found is None else str(found)

    @property
    def counts(self) -> Mapping[str, Any]:
        """Blocks, rows, failed attempts, and refusals by role and reason."""
        counts: Mapping[str, Any] = self.data["counts"]
        return counts

    @property
    def collusion(self) -> Mapping[str, Any]:
        """Who would have to collude, as reported at publication."""
        report: Mapping[str, Any] = self.data["collusion"]
        return report

    def guarantee(self, towards: str) -> Guarantee | None:
        """What the release promises; None in exact mode.

        Parameters
        ----------
        towards : str
            "public" or "collector".

        Returns
        -------
        Guarantee, optional
        """
        found = self.data["guarantee"][towards]
        return None if found is None else Guarantee.from_dict(found)

    @property
    def sha256(self) -> str:
        """Hash of the signed bytes."""
        return hashlib.sha256(self.raw).hexdigest()


def _agree(manifest: Manifest) -> None:
    """A collector may sign what it likes; the study that all parties signed decides what it may say."""
    study, data = manifest.study, manifest.data
    start, release = dataset_key(manifest.dataset_id)
    rows = data["rows"]
    for held, what in (
        (manifest.study_id == study.id.hex(), "study id"),
        (data.get("suite", "rows") == study.suite.name, "suite"),
        (start == manifest.study_id[:12] and release == manifest.release, "dataset id"),
        (manifest.title == study.title, "title"),
        (manifest.columns == study.schema.columns, "columns"),
        (math.isfinite(manifest.sigma) and manifest.sigma == study.protection.sigma, "sigma"),
        (manifest.guarantee("public") == study.protection.public, "guarantee towards the public"),
        (manifest.guarantee("collector") == study.protection.collector, "guarantee towards the collector"),
        (isinstance(rows, int) and rows >= 1, "number of rows"),
        *_suite_agrees(manifest),
        (
            isinstance(data["published_ms"], int) and 0 <= manifest.published_ms < _YEAR_10000,
            "time of publication",
        ),
        (
            isinstance(data["counts"], dict) and isinstance(data["collusion"], dict),
            "counts or collusion report",
        ),
        (manifest.previous is None or manifest.release > 1, "link to the release before"),
    ):
        if not held:
            raise VerificationError(f"the manifest does not agree with the study it is of: {what}")
    names = [entry.name for entry in manifest.files]
    if not {manifest.data_file, COUNTED_FILE} <= set(names) or len(set(names)) != len(names):
        raise VerificationError(
            f"the manifest must name {manifest.data_file} and {COUNTED_FILE}, and every file once"
        )
    for entry in manifest.files:
        named = isinstance(entry.name, str) and _FILE_NAME.fullmatch(entry.name)
        hashed = isinstance(entry.sha256, str) and _SHA256.fullmatch(entry.sha256)
        if not named or not hashed or not isinstance(entry.bytes, int) or entry.bytes < 0:
            raise VerificationError("the manifest has a file entry that cannot be used")


def _suite_agrees(manifest: Manifest) -> list[tuple[bool, str]]:
    study, data = manifest.study, manifest.data
    if manifest.suite == "rows":
        return [
            (data["rows"] >= study.release_rows, "number of rows (fewer than the noise was made for)"),
            (data["stored_rows"] in (data["rows"], study.attributes), "number of stored rows"),
        ]
    ids = manifest.batch_ids
    # The noise is the same whatever their number: the last release of a study may have fewer people than asked for.
    return [
        (data["rows"] <= study.moments.max_release_rows, "number of people (more than totals can hold)"),
        (data.get("stored_rows", 0) == 0, "number of stored rows"),
        (len(set(ids)) == len(ids) > 0 and len({len(item) for item in ids}) == 1, "batches"),
    ]

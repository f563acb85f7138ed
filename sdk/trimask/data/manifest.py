"""The signed manifest of a dataset, and every check that needs nothing but the manifest.

The collector signs the JSON bytes as they are (context word "manifest"). Who the collector is comes from the
study inside, which every party of the study has signed; a researcher who knows the study's id can pin it.

moments.json, the data file of the moments suite: noisy totals, with what each right provider signed about its part.

Every delivery is in the file and is checked: its hash with its salt, the provider's signatures over that hash, the
release, its batches, its accepted reports and all providers' commitments, and that the deliveries add up to the totals.

The collector could publish other totals than the providers delivered, or other reports than were asked about; a provider
that has seen what the others delivered could commit again, to another total. Neither goes unnoticed here.

counted.bin, the list of the submissions a release counts, is held against the manifest and what right providers signed.
In both suites it has as many as the release has people. In the moments suite every right provider signed the hash of the
batches and of which reports in them were accepted: a list that differs in one id or one mark is refused. In the rows
suite every right provider signed the list of each block when it bound these rows to it: a list that differs in one id is
refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from trimask_core.basics.encoding import decode_bytes, read_json
from trimask_core.basics.errors import TrimaskError, VerificationError
from trimask_core.crypto.keys import verify
from trimask_core.moments.totals import (
    COMMITMENTS,
    TOTALS,
    AddedBatch,
    accepted_hash,
    asked_hash,
    commitment_message,
    commitments_message,
    decode,
    read_values,
    release_hash,
    values_hash,
)
from trimask_core.study.definition import Study, SuiteName
from trimask_core.study.derived import Column
from trimask_core.study.guarantee import Guarantee
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.release_files import COUNTED_FILE, Counted


class Shown:
    """Gives a class the notebook form of its `str`, escaped: a study's owner chose some of its words."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


MANIFEST_FILE = "manifest.json"
SIGNATURE_FILE = "manifest.sig"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Asked:
    """What the deliveries must be of: the hash of what was asked, the accepted reports, and how many totals there are."""

    asked: bytes
    accepted: bytes
    people: int
    totals: int


def summed_deliveries(
    study: Study, asked: Asked, found: Sequence[Mapping[str, Any]], where: str
) -> list[int]:
    """The totals that the deliveries add up to; `VerificationError` if one of them is not what its provider signed."""
    roles = [f"R{k}" for k in range(1, len(study.right) + 1)]
    by_role = {str(item["role"]): item for item in found}
    if sorted(by_role) != sorted(roles) or len(by_role) != len(found):
        raise VerificationError(f"{where} must have one delivery of each of {', '.join(roles)}")
    committed = [bytes.fromhex(by_role[role]["values_hash"]) for role in roles]
    seen = commitments_message(asked.asked, asked.accepted, asked.people, committed)
    delivered = []
    for role, commitment in zip(roles, committed, strict=True):
        item, identity = by_role[role], study.party(role).identity
        values = read_values(decode_bytes(item["values"]), asked.totals)
        if values_hash(values, decode_bytes(item["salt"])) != commitment:
            raise VerificationError(f"the delivery of {role} is not what it committed to")
        if item["accepted_count"] != asked.people:
            raise VerificationError(f"the delivery of {role} is of another number of people")
        message = commitment_message(asked.asked, role, asked.accepted, asked.people, commitment)
        verify(identity, TOTALS, message, decode_bytes(item["signature"]), f"the totals of {role}")
        verify(
            identity,
            COMMITMENTS,
            seen,
            decode_bytes(item["commitments_signature"]),
            f"what {role} saw of the others' commitments",
        )
        delivered.append(values)
    return decode(delivered)


TOTALS_FORMAT = "trimask-moments/1"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Totals:
    """Noisy sums of z_j, and of z_j z_l for j <= l row by row, over the people whose reports were accepted.

    In a weighted study every summand counts s^2 times, and the sum of s^2 itself is the first of `first`.
    `accepted_hash` names those reports; every right provider signed it.
    """

    first: tuple[int, ...]
    products: tuple[int, ...]
    accepted: int
    accepted_hash: bytes


def read_totals(path: Path, manifest: Manifest) -> Totals:
    """Read and check the file; `VerificationError` if anything does not agree."""
    try:
        return _checked(read_json(path.read_bytes()), manifest)
    except VerificationError:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
        OverflowError,
        TrimaskError,
    ) as error:
        raise VerificationError(f"{MOMENTS_FILE} cannot be read: {type(error).__name__} {error}") from None


def _checked(data: Mapping[str, Any], manifest: Manifest) -> Totals:
    study, layout = manifest.study, manifest.study.moments.layout
    if data["format"] != TOTALS_FORMAT:
        raise VerificationError(f"{MOMENTS_FILE} is not of format {TOTALS_FORMAT}")
    accepted = bytes.fromhex(data["accepted_hash"])
    first, products = tuple(data["first"]), tuple(data["products"])
    for held, what in (
        (data["release"] == manifest.release, "release"),
        (type(data["accepted"]) is int and data["accepted"] == manifest.rows, "number of people"),
        (data["columns"] == [column.name for column in layout.columns], "columns"),
        (len(accepted) == _HASH_BYTES, "accepted reports"),
        ((len(first), len(first + products)) == (layout.firsts, layout.totals), "number of totals"),
        (all(type(value) is int for value in (*first, *products)), "totals"),
    ):
        if not held:
            raise VerificationError(f"{MOMENTS_FILE} does not agree with the manifest: {what}")
    asked = asked_hash(study.id, manifest.release, b"".join(manifest.batch_ids))
    of = Asked(asked, accepted, manifest.rows, len(first + products))
    if summed_deliveries(study, of, data["deliveries"], MOMENTS_FILE) != [*first, *products]:
        raise VerificationError(
            f"the totals of {MOMENTS_FILE} are not the sum of what the providers delivered"
        )
    return Totals(first, products, manifest.rows, accepted)


def read_counted(folder: Path, manifest: Manifest, totals: Totals | None) -> Counted:
    """Read and check the list; `totals` where the release is of the moments suite."""
    counted = Counted.from_bytes((folder / COUNTED_FILE).read_bytes())
    if counted.count != manifest.rows:
        raise VerificationError(
            f"{COUNTED_FILE} counts {counted.count:,} submissions where the manifest says {manifest.rows:,}"
        )
    if totals is None:
        if any(block.count != len(block) for block in counted.blocks):
            raise VerificationError(f"{COUNTED_FILE} has refused submissions, which the rows suite has not")
        for block in counted.blocks:
            block.verify(manifest.study)
    elif _signed(counted, manifest) != totals.accepted_hash:
        raise VerificationError(
            f"{COUNTED_FILE} is not the list of reports that the right providers signed for"
        )
    return counted


def _signed(counted: Counted, manifest: Manifest) -> bytes:
    """What right providers of the moments suite have signed if this is the list."""
    study_id = manifest.study.id
    batches = [
        AddedBatch(
            block.block_id,
            accepted_hash(study_id, block.block_id, list(block), [mark == 1 for mark in block.accepted]),
            block.count,
        )
        for block in counted.blocks
    ]
    return release_hash(study_id, manifest.release, batches)


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
    >>> manifest = trimask.Dataset.open("out/demo/rows").manifest
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

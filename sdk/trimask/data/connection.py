"""A connection to a collector: what it tells about its studies and datasets, a line each, and a verified copy of one.

Files are pulled in pieces, resumed where an earlier pull stopped, and checked by hash at the end. A file under way is
called NAME.part. Its bytes are only trusted once the whole file's hash is the manifest's. If a resumed file fails that,
the part may have been spoilt on this machine, so it is fetched once more from the start; a file fetched whole that fails
it is the collector's fault, and is refused.

They are kept in TRIMASK_CACHE, or the platform's folder for caches.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from trimask.data.manifest import (
    MANIFEST_FILE,
    SIGNATURE_FILE,
    FileEntry,
    Manifest,
    Shown,
    dataset_key,
    file_sha256,
)
from trimask.errors import ParameterError, VerificationError
from trimask_client.grpc_channel import Pem, open_channel, plain_errors
from trimask_core.basics.encoding import shown
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_proto.v1 import dataset_pb2, study_pb2
from trimask_proto.v1.dataset_pb2_grpc import DatasetServiceStub
from trimask_proto.v1.study_pb2_grpc import StudyServiceStub

if TYPE_CHECKING:
    from trimask.data.dataset import Dataset


State = Literal["unspecified", "open", "closing", "closed", "paused"]
_STATES: tuple[State, ...] = ("unspecified", "open", "closing", "closed", "paused")


def _state(number: int) -> State:
    return _STATES[number] if 0 <= number < len(_STATES) else "unspecified"


def study_key(study_id: str | bytes) -> bytes:
    """The 32 bytes of a study id given as bytes or hex."""
    try:
        key = bytes.fromhex(study_id) if isinstance(study_id, str) else bytes(study_id)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ParameterError("study_id", "64 hexadecimal digits, or 32 bytes", study_id)
    return key


@dataclass(frozen=True, slots=True)
class StudyInfo(Shown):
    """A study in a line: its id in hex, its title, and its state ("open", "closing", "closed"; "paused" while what is there
    is counted before it closes).

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print([study.title for study in collector.studies()])
    """

    id: str
    title: str
    state: State

    @classmethod
    def from_proto(cls, message: study_pb2.StudySummary) -> StudyInfo:
        """Read the collector's answer."""
        return cls(message.study_id.hex(), message.title, _state(message.state))


@dataclass(frozen=True, slots=True)
class AbandonedBlock:
    """A block that was given up, with its rows; `why` says so in words."""

    id: str
    rows: int
    why: str


@dataclass(frozen=True, slots=True)
class StudyStatus(Shown):
    """How far a study's collection has come. `refusals[role]` is None where the node did not answer.

    `audit_heads[role]` is the signed head of a node's audit log: keep it, and the log can no longer lose an entry unseen.

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print(collector.status(collector.studies()[0].id).published_rows)
    """

    state: State
    pending_rows: int
    masking_rows: int
    pooled_rows: int
    published_rows: int
    pooled_blocks: int
    failed_attempts: int
    releases: int
    note: str
    refusals: Mapping[str, Mapping[str, int] | None]
    audit_heads: Mapping[str, Mapping[str, str | int]] = field(default_factory=dict)
    refused_reports: Mapping[str, int] = field(default_factory=dict)
    """Submissions that the right providers' check refused and erased, by reason."""
    study_refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """What each node refused of this study's requests since it was last started, by reason."""
    abandoned_blocks: tuple[AbandonedBlock, ...] = ()
    """Blocks that were given up: nothing of their rows is in a release."""
    invitations_used: Mapping[str, int] = field(default_factory=dict)
    """How many invitations were used at each right provider that answered, as the collector passes it on; empty in an
    open study. All count the same, but for submissions on their way."""
    sent_together: Mapping[str, int] = field(default_factory=dict)
    """How many people came together to each right provider, from an institution that has their answers; none is left out."""

    @classmethod
    def from_proto(cls, message: study_pb2.GetStudyStatusResponse) -> StudyStatus:
        """Read the collector's answer."""
        refusals = {
            node.role: {item.reason: item.count for item in node.counts} if node.reachable else None
            for node in message.refusals
        }
        used = {
            node.role: node.invitations_used
            for node in message.refusals
            if node.reachable and node.role.startswith("R")
        }
        return cls(
            state=_state(message.state),
            pending_rows=message.pending_rows,
            masking_rows=message.masking_rows,
            pooled_rows=message.pooled_rows,
            published_rows=message.published_rows,
            pooled_blocks=message.pooled_blocks,
            failed_attempts=message.failed_attempts,
            releases=message.releases,
            note=shown(message.note),
            refusals=refusals,
            study_refusals={
                node.role: {item.reason: item.count for item in node.study_counts}
                for node in message.refusals
                if node.study_counts
            },
            audit_heads={
                node.role: {
                    "sequence": node.audit_head.sequence,
                    "hash": node.audit_head.hash.hex(),
                    "signature": node.audit_head.signature.hex(),
                }
                for node in message.refusals
                if node.audit_head.sequence
            },
            refused_reports={item.reason: item.count for item in message.refused_reports},
            abandoned_blocks=tuple(
                AbandonedBlock(item.block_id.hex(), item.rows, shown(item.why))
                for item in message.abandoned_blocks
            ),
            invitations_used=used if any(used.values()) else {},
            sent_together={node.role: node.sent_together for node in message.refusals if node.sent_together},
        )


@dataclass(frozen=True, slots=True)
class DatasetInfo(Shown):
    """A dataset in a line: id, study, title, rows, columns, when it was published.

    Unsigned: what counts is in the manifest, which is checked when it is pulled.

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443") as collector:  # doctest: +SKIP
    ...     print([info.id for info in collector.datasets()])
    """

    id: str
    study_id: str
    title: str
    rows: int
    columns: int
    published_ms: int

    @classmethod
    def from_proto(cls, message: dataset_pb2.DatasetSummary) -> DatasetInfo:
        """Read the collector's answer."""
        return cls(
            message.dataset_id, message.study_id.hex(), message.title, message.rows, message.columns,
            message.publish_time_ms,
        )  # fmt: skip


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


def cache_folder(chosen: str | Path | None = None) -> Path:
    """The folder for datasets; `chosen` or the variable TRIMASK_CACHE override the platform's."""
    if chosen is not None:
        return Path(chosen).expanduser()
    if named := os.environ.get("TRIMASK_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "trimask"


class Connection(Shown):
    """A connection to a collector over TLS, as `trimask.connect` makes it. Nothing is sent until the first question.

    Use it as a context manager, or call `close`.

    Parameters
    ----------
    target : str
        The collector's host:port.
    roots : bytes, str or Path, optional
        The authorities to trust, as PEM or a path; the system's by default.
    tls_name : str, optional
        The name in the collector's certificate, if it is not the host's.
    certificate : tuple, optional
        (certificate, key), where the collector asks for one.
    token : str, optional
        A researcher's, from the study's owner; $TRIMASK_TOKEN by default, if set.
    cache : str or Path, optional
        Where pulled datasets are kept.
    timeout : float
        Seconds for one call.

    Raises
    ------
    Refused, ConnectionFailed, VerificationError
        By every call, where a party says no, cannot be reached, or sends what does not verify.

    Examples
    --------
    >>> import trimask
    >>> with trimask.connect("collector.example.org:7443", roots="ca.pem") as collector:  # doctest: +SKIP
    ...     for study in collector.studies():
    ...         print(study.title, collector.status(study.id).published_rows)
    ...     dataset = collector.dataset("3f2a9c01d4e5-1")
    """

    def __init__(
        self,
        target: str,
        *,
        roots: Pem | None = None,
        tls_name: str | None = None,
        certificate: tuple[Pem, Pem] | None = None,
        token: str | None = None,
        cache: str | Path | None = None,
        timeout: float = 30.0,
    ) -> None:
        if not timeout > 0:
            raise ParameterError("timeout", "> 0", timeout)
        own_certificate, key = certificate if certificate is not None else (None, None)
        self.target = target
        self._timeout = timeout
        self._cache = cache_folder(cache)
        token = token or os.environ.get("TRIMASK_TOKEN") or None
        self._channel = open_channel(target, roots, tls_name, own_certificate, key, token)
        self._studies = StudyServiceStub(self._channel)
        self._datasets = DatasetServiceStub(self._channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Connection to {self.target}>"

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def studies(self) -> list[StudyInfo]:
        """The studies this collector runs, oldest first."""
        with plain_errors(self.target):
            answer = self._studies.ListStudies(study_pb2.ListStudiesRequest(), timeout=self._timeout)
        return [StudyInfo.from_proto(item) for item in answer.studies]

    def study(self, study_id: str | bytes) -> Study:
        """One study by its `study_id` (hex, or 32 bytes), checked: it has this id, and every party in it has signed it."""
        key = study_key(study_id)
        with plain_errors(self.target):
            answer = self._studies.GetStudy(study_pb2.GetStudyRequest(study_id=key), timeout=self._timeout)
        study = SignedStudy.from_json(answer.signed_study).verify()
        if study.id != key:
            raise VerificationError(f"the collector sent study {study.id.hex()} when asked for {key.hex()}")
        return study

    def status(self, study_id: str | bytes) -> StudyStatus:
        """How far the collection of the study `study_id` (hex, or 32 bytes) has come."""
        request = study_pb2.GetStudyStatusRequest(study_id=study_key(study_id))
        with plain_errors(self.target):
            return StudyStatus.from_proto(self._studies.GetStudyStatus(request, timeout=self._timeout))

    def datasets(self, study_id: str | bytes | None = None) -> list[DatasetInfo]:
        """The published datasets, oldest first; only those of the study `study_id` where it is given."""
        request = dataset_pb2.ListDatasetsRequest(study_id=b"" if study_id is None else study_key(study_id))
        with plain_errors(self.target):
            answer = self._datasets.ListDatasets(request, timeout=self._timeout)
        return [DatasetInfo.from_proto(item) for item in answer.datasets]

    def manifest(self, dataset_id: str, *, study_id: str | bytes | None = None) -> Manifest:
        """The verified manifest of a dataset: of `dataset_id`, such as 3f2a9c01d4e5-1; `study_id` pins the study."""
        dataset_key(dataset_id)
        with plain_errors(self.target):
            request = dataset_pb2.GetManifestRequest(dataset_id=dataset_id)
            answer = self._datasets.GetManifest(request, timeout=self._timeout)
        pinned = None if study_id is None else study_key(study_id)
        manifest = Manifest.read(answer.manifest, answer.signature, study_id=pinned)
        if manifest.dataset_id != dataset_id:
            raise VerificationError(
                f"the collector sent dataset {manifest.dataset_id} when asked for {dataset_id}"
            )
        return manifest

    def dataset(
        self, dataset_id: str, *, study_id: str | bytes | None = None, progress: Progress | None = None
    ) -> Dataset:
        """A verified copy of a dataset, from the cache if it is there.

        The manifest and those of all releases before it are checked, then every file against its hash. A pull that was cut
        off goes on where it stopped.

        Parameters
        ----------
        dataset_id : str
            Such as 3f2a9c01d4e5-1.
        study_id : str or bytes, optional
            Pins the study: another one is refused.
        progress : callable, optional
            Called with (file, bytes here, bytes in all) as pieces come.

        Returns
        -------
        Dataset
        """
        # Here, because what only asks how a study goes starts in half the time without.
        from trimask.data.dataset import Dataset
        from trimask.data.description import write_readme

        manifest = self.manifest(dataset_id, study_id=study_id)
        self._check_chain(manifest)
        # The hash is part of the name, so that no other collector's dataset of the same id is taken for it.
        folder = self._cache / "datasets" / f"{dataset_id}-{manifest.sha256[:16]}"
        folder.mkdir(parents=True, exist_ok=True)

        def read(name: str, offset: int, most: int) -> bytes:
            request = dataset_pb2.ReadFileRequest(
                dataset_id=dataset_id, file_name=name, offset=offset, max_bytes=most
            )
            with plain_errors(self.target):
                return bytes(self._datasets.ReadFile(request, timeout=self._timeout).content)

        for entry in manifest.files:
            pull_file(entry, folder, read, progress)
        (folder / MANIFEST_FILE).write_bytes(manifest.raw)
        (folder / SIGNATURE_FILE).write_bytes(manifest.signature)
        write_readme(manifest, folder)
        return Dataset(manifest, folder)  # all that `Dataset.open` checks has just been checked

    def _check_chain(self, manifest: Manifest) -> None:
        """Every release names the hash of the one published before, so a collector cannot swap one, or drop one later.

        A number may be missing: that of a release that was given up, or those a restored collector has skipped. That
        nothing was published under a missing number is the collector's word.
        """
        start, release = dataset_key(manifest.dataset_id)
        listed = {dataset_key(item.id) for item in self.datasets(manifest.study_id)}
        for number in sorted((n for of, n in listed if of == start and n < release), reverse=True):
            before = self.manifest(f"{start}-{number}", study_id=manifest.study_id)
            if before.sha256 != manifest.previous:
                raise VerificationError(f"{manifest.dataset_id} was signed after another {before.dataset_id}")
            manifest = before
        if manifest.previous is not None:
            raise VerificationError(
                f"{manifest.dataset_id} was signed after a release that the collector does not have"
            )


connect = Connection

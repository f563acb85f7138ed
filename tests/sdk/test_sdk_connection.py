"""Pulling from a real gRPC server over TLS: what is pulled is verified, resumed and cached."""

from __future__ import annotations

import datetime as dt
import ipaddress
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pandas as pd
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import trimask
from trimask.data.connection import PIECE_BYTES, cache_folder, pull_file
from trimask.data.manifest import FileEntry
from trimask.errors import ConnectionFailed, ParameterError, Refused, VerificationError
from trimask_client.grpc_channel import open_channel
from trimask_core.crypto.keys import SigningKey
from trimask_proto.v1 import common_pb2, dataset_pb2, dataset_pb2_grpc, study_pb2, study_pb2_grpc

Write = Callable[..., Path]
People = Callable[..., pd.DataFrame]
TLS_NAME = "collector.test"


@dataclass(frozen=True)
class Tls:
    """An authority, the server's certificate under it, and a caller's."""

    roots: bytes
    server: tuple[bytes, bytes]
    caller: tuple[bytes, bytes]


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificate(
    name: str, authority: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None
) -> tuple[bytes, ec.EllipticCurvePrivateKey, x509.Name]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    issuer, signer = authority or (subject, key)
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
    )
    if authority is not None:
        names = [x509.DNSName(name), x509.IPAddress(ipaddress.ip_address("192.0.2.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    made = builder.sign(signer, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM), key, subject


@pytest.fixture(scope="session")
def tls() -> Tls:
    """Certificates for this run."""
    roots, key, name = _certificate("authority", None)
    server, server_key, _ = _certificate(TLS_NAME, (name, key))
    caller, caller_key, _ = _certificate("researcher.test", (name, key))
    return Tls(roots, (server, _pem(server_key)), (caller, _pem(caller_key)))


def _refuse(context: grpc.ServicerContext, code: grpc.StatusCode, reason: str, message: str) -> Any:
    context.set_trailing_metadata((("trimask-reason", reason),))
    context.abort(code, message)


@dataclass
class Collector(dataset_pb2_grpc.DatasetServiceServicer, study_pb2_grpc.StudyServiceServicer):
    """Serves dataset folders as a collector does; `fail_after` and `piece` make it a bad day."""

    folders: dict[str, Path]
    study: Any
    piece: int = 1 << 30
    fail_after: int | None = None
    reads: list[tuple[int, int]] = field(default_factory=list)

    def ListDatasets(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        kept = [name for name in self.folders if not request.study_id or request.study_id == self.study.id]
        return dataset_pb2.ListDatasetsResponse(
            datasets=[
                dataset_pb2.DatasetSummary(
                    dataset_id=name, study_id=self.study.id, title="Blood pressure", rows=400, columns=9, publish_time_ms=5
                )
                for name in kept
            ]
        )  # fmt: skip

    def GetManifest(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.dataset_id not in self.folders:
            _refuse(
                context,
                grpc.StatusCode.NOT_FOUND,
                "unknown_name",
                f"there is no dataset {request.dataset_id}",
            )
        folder = self.folders[request.dataset_id]
        return dataset_pb2.GetManifestResponse(
            manifest=(folder / "manifest.json").read_bytes(), signature=(folder / "manifest.sig").read_bytes()
        )

    def ReadFile(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.fail_after is not None and len(self.reads) >= self.fail_after:
            context.abort(grpc.StatusCode.INTERNAL, "the disk is gone")
        self.reads.append((request.offset, request.max_bytes))
        content = (self.folders[request.dataset_id] / request.file_name).read_bytes()
        size = min(self.piece, request.max_bytes)
        return dataset_pb2.ReadFileResponse(content=content[request.offset : request.offset + size])

    def ListStudies(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        item = study_pb2.StudySummary(
            study_id=self.study.id, title=self.study.title, state=study_pb2.STUDY_STATE_CLOSED
        )
        return study_pb2.ListStudiesResponse(studies=[item])

    def GetStudy(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802
        return study_pb2.GetStudyResponse(signed_study=self.signed.to_json().encode())

    def GetStudyStatus(self, request: Any, context: Any) -> Any:  # noqa: N802
        if request.study_id != self.study.id:
            _refuse(context, grpc.StatusCode.NOT_FOUND, "unknown_study", "there is no such study here")
        count = common_pb2.RefusalCount(reason="conflicting_submission", count=2)
        return study_pb2.GetStudyStatusResponse(
            state=study_pb2.STUDY_STATE_CLOSED, published_rows=400, pooled_blocks=3, releases=1, note="all is well",
            refusals=[
                study_pb2.NodeRefusals(role="R1", reachable=True, counts=[count]),
                study_pb2.NodeRefusals(role="L1", reachable=False),
            ],
        )  # fmt: skip

    signed: Any = None


@dataclass
class Served:
    """A running collector and how to reach it."""

    collector: Collector
    target: str
    tls: Tls
    cache: Path

    def connect(self, **changes: Any) -> trimask.Connection:
        """A connection with the right settings but for `changes`."""
        settings: dict[str, Any] = {
            "roots": self.tls.roots,
            "tls_name": TLS_NAME,
            "cache": self.cache,
            "timeout": 20,
        }
        return trimask.connect(self.target, **{**settings, **changes})


@pytest.fixture
def serve(tls: Tls, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts a collector on a free port: `serve(signed, folders)`."""
    servers = []

    def start(signed: Any, *folders: Path, numbers: Sequence[int] = (), mutual: bool = False) -> Served:
        study = signed.study
        numbers = numbers or range(1, len(folders) + 1)
        named = {f"{study.id.hex()[:12]}-{n}": folder for n, folder in zip(numbers, folders, strict=True)}
        collector = Collector(named, study, signed=signed.signed)
        server = grpc.server(futures.ThreadPoolExecutor(4))
        dataset_pb2_grpc.add_DatasetServiceServicer_to_server(collector, server)
        study_pb2_grpc.add_StudyServiceServicer_to_server(collector, server)
        chain, key = tls.server
        credentials = grpc.ssl_server_credentials(
            [(key, chain)], root_certificates=tls.roots if mutual else None, require_client_auth=mutual
        )
        port = server.add_secure_port("127.0.0.1:0", credentials)
        server.start()
        servers.append(server)
        return Served(collector, f"127.0.0.1:{port}", tls, tmp_path / "cache")

    yield start
    for server in servers:
        server.stop(None).wait()


@pytest.fixture
def served(serve: Callable[..., Served], noisy: Any, noisy_folder: Path) -> Served:
    """A collector with one dataset."""
    return serve(noisy, noisy_folder)


def _id(served: Served, release: int = 1) -> str:
    return f"{served.collector.study.id.hex()[:12]}-{release}"


def test_catalogue(served: Served, noisy: Any) -> None:
    with served.connect() as connection:
        (study,) = connection.studies()
        assert (study.id, study.title, study.state) == (noisy.study.id.hex(), "Blood pressure", "closed")
        status = connection.status(study.id)
        assert (status.state, status.published_rows, status.releases, status.note) == (
            "closed",
            400,
            1,
            "all is well",
        )
        assert status.refusals == {"R1": {"conflicting_submission": 2}, "L1": None}
        assert connection.study(noisy.study.id) == noisy.study
        (dataset,) = connection.datasets(noisy.study.id)
        assert (dataset.id, dataset.rows, dataset.study_id) == (_id(served), 400, study.id)
        assert len(connection.datasets()) == 1
        assert connection.datasets(bytes(32)) == []
        assert served.target in repr(connection)


def test_pulled_dataset_is_the_published_one(served: Served, noisy_folder: Path, noisy: Any) -> None:
    steps: list[tuple[str, int, int]] = []
    served.collector.piece = 5000
    with served.connect() as connection:
        dataset = connection.dataset(
            _id(served), study_id=noisy.study.id.hex(), progress=lambda *step: steps.append(step)
        )
    pd.testing.assert_frame_equal(dataset.to_pandas(), trimask.Dataset.open(noisy_folder).to_pandas())
    size = (noisy_folder / "dataset.parquet").stat().st_size
    assert [step[1] for step in steps if step[0] == "dataset.parquet"] == [*range(0, size, 5000), size]
    listed = (noisy_folder / "counted.bin").stat().st_size
    assert {(name, total) for name, _, total in steps} == {("dataset.parquet", size), ("counted.bin", listed)}
    assert all(most <= PIECE_BYTES for _, most in served.collector.reads)
    assert dataset.path.is_relative_to(served.cache)


def test_second_pull_reads_nothing(served: Served) -> None:
    with served.connect() as connection:
        connection.dataset(_id(served))
        before = len(served.collector.reads)
        steps: list[tuple[str, int, int]] = []
        connection.dataset(_id(served), progress=lambda *step: steps.append(step))
    assert len(served.collector.reads) == before
    assert [step[0] for step in steps] == ["dataset.parquet", "counted.bin"]


def test_pull_that_was_cut_off_goes_on_where_it_stopped(served: Served) -> None:
    served.collector.piece = 5000
    served.collector.fail_after = 2
    with served.connect() as connection:
        with pytest.raises(Refused, match="the disk is gone") as caught:
            connection.dataset(_id(served))
        assert caught.value.reason == "internal"
        assert next(served.cache.rglob("*.part")).stat().st_size == 10_000
        served.collector.fail_after = None
        served.collector.reads.clear()
        connection.dataset(_id(served))
    assert served.collector.reads[0][0] == 10_000
    assert not list(served.cache.rglob("*.part"))


def test_spoilt_part_is_fetched_again_from_the_start(served: Served) -> None:
    served.collector.piece = 5000
    served.collector.fail_after = 2
    with served.connect() as connection:
        with pytest.raises(Refused):
            connection.dataset(_id(served))
        part = next(served.cache.rglob("*.part"))
        part.write_bytes(b"x" * 7000)
        served.collector.fail_after = None
        served.collector.reads.clear()
        connection.dataset(_id(served)).gram()
    offsets = [offset for offset, _ in served.collector.reads]
    assert offsets[0] == 7000
    assert 0 in offsets


def test_truncated_file(serve: Callable[..., Served], noisy: Any, noisy_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(noisy_folder, tmp_path / "cut"))
    path = folder / "dataset.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    served = serve(noisy, folder)
    with served.connect() as connection, pytest.raises(VerificationError, match="ended at"):
        connection.dataset(_id(served))
    assert not list(served.cache.rglob("dataset.parquet"))


def test_other_file_is_refused_and_not_kept(
    serve: Callable[..., Served], noisy: Any, noisy_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(noisy_folder, tmp_path / "other"))
    path = folder / "dataset.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    served = serve(noisy, folder)
    with served.connect() as connection, pytest.raises(VerificationError, match="it was not kept"):
        connection.dataset(_id(served))
    assert not [item for item in served.cache.rglob("*") if item.is_file()]


def test_file_spoilt_in_the_cache_is_pulled_again(served: Served) -> None:
    with served.connect() as connection:
        path = connection.dataset(_id(served)).path
        path.write_bytes(b"x" + path.read_bytes()[1:])
        assert connection.dataset(_id(served)).path == path
        trimask.Dataset.open(path.parent)


def test_tampered_manifest(
    serve: Callable[..., Served], noisy: Any, noisy_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(noisy_folder, tmp_path / "bad"))
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes().replace(b'"blocks": 2', b'"blocks": 3'))
    served = serve(noisy, folder)
    with served.connect() as connection, pytest.raises(VerificationError, match="signature on the manifest"):
        connection.dataset(_id(served))
    assert not served.cache.exists()


def test_wrong_key(
    serve: Callable[..., Served], noisy: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    served = serve(noisy, write_release(tmp_path / "d", noisy, people(100, 1), key=SigningKey.generate()))
    with served.connect() as connection, pytest.raises(VerificationError, match="signature on the manifest"):
        connection.dataset(_id(served))


def test_unknown_dataset_and_study(served: Served) -> None:
    with served.connect() as connection:
        with pytest.raises(Refused, match="there is no dataset") as caught:
            connection.dataset(_id(served, 9))
        assert caught.value.reason == "unknown_name"
        with pytest.raises(Refused) as caught:
            connection.status(bytes(32))
        assert caught.value.reason == "unknown_study"
        with pytest.raises(VerificationError, match="not a dataset id"):
            connection.dataset("../../etc")
        with pytest.raises(ParameterError, match="64 hexadecimal digits"):
            connection.status("abc")


def test_other_answer_than_was_asked_for(
    serve: Callable[..., Served], noisy: Any, exact: Any, noisy_folder: Path, exact_folder: Path
) -> None:
    served = serve(noisy, exact_folder)
    with served.connect() as connection:
        with pytest.raises(VerificationError, match="when asked for"):
            connection.dataset(_id(served))
        with pytest.raises(VerificationError, match="when asked for"):
            connection.study(exact.study.id)
        with pytest.raises(VerificationError, match="not of"):
            connection.dataset(_id(served), study_id=noisy.study.id)


def test_chain_of_releases(
    serve: Callable[..., Served], noisy: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    first = write_release(tmp_path / "1", noisy, people(100, 1))
    link = trimask.Dataset.open(first).manifest.sha256
    second = write_release(tmp_path / "2", noisy, people(100, 2), release=2, previous=link)
    with serve(noisy, first, second).connect() as connection:
        assert connection.dataset(f"{noisy.study.id.hex()[:12]}-2").manifest.previous == link
    swapped = write_release(tmp_path / "3", noisy, people(100, 3))
    with (
        serve(noisy, swapped, second).connect() as connection,
        pytest.raises(VerificationError, match="another"),
    ):
        connection.dataset(f"{noisy.study.id.hex()[:12]}-2")
    with (
        serve(noisy, second, numbers=[2]).connect() as connection,
        pytest.raises(VerificationError, match="does not have"),
    ):
        connection.dataset(f"{noisy.study.id.hex()[:12]}-2")


def test_repro_a_release_after_one_that_was_given_up_is_read(
    serve: Callable[..., Served], noisy: Any, write_release: Write, people: People, tmp_path: Path
) -> None:
    """Release 1 was given up; after release 2 the collector was restored, and skipped numbers. Nobody could read either."""
    second = write_release(tmp_path / "2", noisy, people(100, 2), release=2)
    link = trimask.Dataset.open(second).manifest.sha256
    last = write_release(tmp_path / "1002", noisy, people(100, 3), release=1002, previous=link)
    start = noisy.study.id.hex()[:12]
    with serve(noisy, second, last, numbers=[2, 1002]).connect() as connection:
        assert connection.dataset(f"{start}-2").manifest.previous is None
        assert connection.dataset(f"{start}-1002").manifest.previous == link
    hidden = write_release(tmp_path / "1", noisy, people(100, 1))
    with (
        serve(noisy, hidden, second).connect() as connection,
        pytest.raises(VerificationError, match="another"),
    ):
        connection.dataset(f"{start}-2")


# TLS


def test_wrong_authority_and_wrong_name(served: Served) -> None:
    stranger, _, _ = _certificate("authority", None)
    for changes in ({"roots": stranger}, {"tls_name": "other.test"}, {"tls_name": None}):
        with (
            served.connect(**changes, timeout=5) as connection,
            pytest.raises(ConnectionFailed, match="could not be reached"),
        ):
            connection.studies()


def test_mutual_tls(serve: Callable[..., Served], noisy: Any, noisy_folder: Path) -> None:
    served = serve(noisy, noisy_folder, mutual=True)
    with served.connect(certificate=served.tls.caller) as connection:
        assert len(connection.studies()) == 1
    with served.connect(timeout=5) as connection, pytest.raises(ConnectionFailed):
        connection.studies()


def test_roots_from_a_file(served: Served, tmp_path: Path) -> None:
    path = tmp_path / "roots.pem"
    path.write_bytes(served.tls.roots)
    for roots in (path, str(path), served.tls.roots.decode()):
        with served.connect(roots=roots) as connection:
            assert connection.studies()


def test_settings_that_cannot_be(tls: Tls, tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    for arguments, message in (
        (("http://a:1",), "no connection without TLS"),
        (("a",), "host:port"),
        (("https://a:1/path",), "host:port"),
        (("a:1", "nowhere.pem"), "roots must be PEM text"),
        (("a:1", tmp_path / "junk"), "roots must be PEM text"),
        (("a:1", None, None, tls.caller[0], None), "given together"),
    ):
        with pytest.raises(ParameterError, match=message):
            open_channel(*arguments)
    with pytest.raises(ParameterError, match="timeout"):
        trimask.connect("a:1", timeout=0)


def test_nobody_there() -> None:
    with (
        trimask.connect("127.0.0.1:1", timeout=10) as connection,
        pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1 could not be reached"),
    ):
        connection.datasets()


# Parts


def test_piece_larger_than_asked_for(tmp_path: Path) -> None:
    entry = FileEntry("a", 3, "0" * 64)
    with pytest.raises(VerificationError, match="more than it was asked for"):
        pull_file(entry, tmp_path, lambda *_: b"12345")


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("TRIMASK_CACHE", raising=False)
    assert cache_folder().name == "trimask"
    monkeypatch.setenv("TRIMASK_CACHE", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named"
    assert cache_folder(tmp_path / "chosen") == tmp_path / "chosen"

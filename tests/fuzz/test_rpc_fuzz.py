"""Every RPC of every node, over real TLS, with messages nobody would send: refused in words, counted, no state changed."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import ServiceDescriptor
from hypothesis import HealthCheck, Phase, given, settings

from trimask_client import Client
from trimask_client.grpc_channel import open_channel
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_faults.lab import FaultLab
from trimask_faults.moments_lab import MomentsFaultLab
from trimask_fuzz.messages import broken, messages
from trimask_patience import patience
from trimask_proto.v1 import (
    collection_pb2,
    dataset_pb2,
    left_masking_pb2,
    moments_pb2,
    node_pb2,
    release_pb2,
    right_batches_pb2,
    right_masking_pb2,
    study_pb2,
    submission_pb2,
    unmasking_pb2,
)
from trimask_server.local.cluster import ThreadCluster, free_base_port, role_of
from trimask_server.local.keys import node_places
from trimask_server.settings.config import NodeConfig
from trimask_simulation.moments_people import RELEASE_REPORTS
from trimask_simulation.people import BLOCK_ROWS, answers_of

# Service -> whom to ask, and with whose certificate, so that what is behind the door is reached.
DOORS: dict[str, tuple[str, str]] = {
    "SubmissionService": ("R1", ""),
    "RightBatchService": ("R1", "collector"),
    "RightMaskingService": ("R1", "collector"),
    "UnmaskingService": ("R2", "collector"),
    "LeftMaskingService": ("L1", "R1"),
    "CollectionService": ("collector", "R2"),
    "NodeService": ("R3", "collector"),
    "StudyService": ("collector", ""),
    "StudyOwnerService": ("collector", "owner"),
    "DatasetService": ("collector", ""),
    "ReleaseService": ("collector", ""),
    "ReleaseOwnerService": ("collector", "owner"),
    "MomentsService": ("R1", "collector"),
    "MomentsPeerService": ("R1", "R2"),
}
MODULES = (
    collection_pb2, dataset_pb2, left_masking_pb2, moments_pb2, node_pb2, release_pb2, right_batches_pb2,
    right_masking_pb2, study_pb2, submission_pb2, unmasking_pb2,
)  # fmt: skip
SERVICES: dict[str, ServiceDescriptor] = {
    name: service for module in MODULES for name, service in module.DESCRIPTOR.services_by_name.items()
}
METHODS = [f"{name}/{method.name}" for name, service in SERVICES.items() for method in service.methods]
# Right masks come from R1; the collector may not push them.
CALLERS = {"UnmaskingService/PushRightMask": "R1", "UnmaskingService/PushMasked": "L2"}
_QUESTION = b'{"columns":["x"],"kind":"sums","price":{"delta":null,"epsilon":null,"mu":0.25}}'
_BY_ITSELF = {"refusals", "audit", "audit_head", "jobs", "progress", "complete_by_day", "witnessed_heads"}
_OUGHT_NOT = {
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
}


@dataclass
class Lab:
    nodes: ThreadCluster
    lab: FaultLab
    study: Study
    other: Study
    moments: Study
    bytes_known: list[bytes]
    dataset_id: str
    batch_ids: bytes

    def channel(self, to: str, caller: str) -> grpc.Channel:
        party = self.lab.parties[to]
        if not caller:
            return open_channel(party.address, self.lab.owner / "ca.pem", tls_name=party.tls_name)
        keys = self.lab.folder / caller
        return open_channel(
            party.peer_address, keys / "ca.pem", tls_name=party.tls_name,
            certificate=keys / "tls.pem", key=keys / "tls.key",
        )  # fmt: skip

    def state(self, name: str) -> dict[str, list[Any]]:
        """Everything in a node's store but the counts and log of refusals, and what nodes note by themselves."""
        (path,) = (self.lab.folder / name).rglob(f"{role_of(name)}.sqlite3")
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        kept = [table for table in tables if table not in _BY_ITSELF and not table.startswith("sqlite_")]
        found = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in kept}  # noqa: S608
        connection.close()
        # When the node last tried whether it can write.
        found["store_facts"] = [row for row in found["store_facts"] if row[0] != "written"]
        return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = FaultLab(tmp_path_factory.mktemp("fuzz"), node_places(3, 2, "127.0.0.1", free_base_port(12)))
    with ThreadCluster(made.folder) as nodes:
        study, other = made.open_study(), made.open_study()
        with Client(study) as client:
            sent = client.prepare(answers_of(0))
            client.send(sent)
        known = [
            study.study.id,
            sent.submission_id,
            sent.sealed[0],
            other.to_json().encode(),
            bytes(8 * 9 * study.study.rows.columns),
        ]
        done = made.open_study()
        with Client(done) as client:
            for person in range(2 * BLOCK_ROWS):
                client.submit(answers_of(person))
        made.close(done.study)
        summed = _summed(made.folder)
        batches = b"".join(_batches(made.folder, summed.study))
        yield Lab(
            nodes,
            made,
            study.study,
            other.study,
            summed.study,
            known,
            f"{done.study.id.hex()[:12]}-1",
            batches,
        )


def _summed(folder: Path) -> SignedStudy:
    """A study of the moments suite whose one batch is added up and released."""
    made = MomentsFaultLab(folder)
    signed = made.open_study()
    with Client(signed) as client:
        for person in range(RELEASE_REPORTS):
            client.submit(answers_of(person))
    made.close(signed.study)
    return signed


def _batches(folder: Path, study: Study) -> list[bytes]:
    rows = MomentsFaultLab(folder).query(
        "R1", "right", study, "SELECT batch_id FROM moments_batches WHERE study_id = ?"
    )
    return [bytes(row[0]) for row in rows]  # type: ignore[call-overload]


def test_every_service_has_its_door() -> None:
    assert set(SERVICES) == set(DOORS)
    assert len(METHODS) > 25


@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("method", METHODS)
def test_anything_is_refused_or_answered(lab: Lab, method: str) -> None:
    service, _, name = method.partition("/")
    to, caller = DOORS[service]
    caller = CALLERS.get(method, caller)
    descriptor = SERVICES[service].methods_by_name[name].input_type
    # What ends a study is tried on another one, or the rest would find it closed.
    ends = name in ("CloseStudy", "EraseStudy", "EndReleases", "StopIntake")
    ids: dict[str, Any] = {
        "study_id": (lab.other if ends else lab.study).id,
        "submission_id": lab.bytes_known[1],
        "dataset_id": lab.dataset_id,
        "file_name": "dataset.parquet",
    }
    known = lab.bytes_known
    if service.startswith("Moments"):
        known = [*known, lab.batch_ids, _QUESTION]
        ids = {
            "study_id": lab.moments.id,
            "block_id": lab.batch_ids[:16],
            "batch_ids": lab.batch_ids,
            "release_number": 1,
        }
    if (
        name == "CloseStudy"
    ):  # goes on after its answer, so that states could not be compared: no real study at all
        known, ids = known[1:], {}
    refusals = lab.nodes.nodes[to].context.refusals
    seen = {"answered": 0, "refused": 0}
    with lab.channel(to, caller) as channel:
        invoke = channel.unary_unary(f"/{SERVICES[service].full_name}/{name}")

        @settings(
            max_examples=int(os.environ.get("TRIMASK_FUZZ_EXAMPLES", "15")),
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(messages(descriptor, known, ids).flatmap(lambda m: broken(m.SerializeToString())))
        def check(data: bytes) -> None:
            state, counted = lab.state(to), refusals.as_dict()
            try:
                invoke(data, timeout=patience(30))
            except grpc.RpcError as error:
                code, details = error.code(), error.details() or ""  # type: ignore[attr-defined]
                reasons = {item.key: item.value for item in error.trailing_metadata() or ()}  # type: ignore[attr-defined]
                reason = str(reasons.get("trimask-reason"))
                assert code not in _OUGHT_NOT, f"{method}: {code.name}: {details}"
                assert lab.state(to) == state, (
                    f"{method} was refused ({reason}) and changed something all the same"
                )
                seen["refused"] += 1
                if (
                    code is grpc.StatusCode.RESOURCE_EXHAUSTED and reason == "None"
                ):  # by gRPC, which did not read it
                    assert len(data) > NodeConfig.max_submission_bytes
                    return
                assert reason not in ("None", "internal_error"), f"{method}: {details}"
                assert "Traceback" not in details
                assert refusals.as_dict().get(reason, 0) == counted.get(reason, 0) + 1, (
                    "a refusal is not counted"
                )
            else:
                seen["answered"] += 1

        check()
    assert sum(seen.values()) >= 10

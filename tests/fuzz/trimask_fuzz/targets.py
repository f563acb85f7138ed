"""One function a parser: bytes in, nothing out, and no exception but the ones it promises.

Seeds are valid documents, made here and not kept as files. Dictionary words are pieces worth mixing in.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from trimask.data.manifest import Manifest
from trimask_core.basics.errors import (
    ConfigError,
    InvitationError,
    Refused,
    StudyError,
    TrimaskError,
    VerificationError,
)
from trimask_core.basics.randomness import DeterministicRandom, SystemRandom
from trimask_core.basics.refusals import Reason
from trimask_core.crypto.keys import component_info
from trimask_core.rows.arrays import read_component
from trimask_core.rows.payloads import payloads, read_tags
from trimask_core.study.definition import Study
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.invitation import Invitation, Link
from trimask_core.submit.release_files import COUNTED_FILE
from trimask_core.submit.submission import ProviderReceipt, Receipt, build_submission
from trimask_fuzz.moments_targets import MOMENTS_TARGETS
from trimask_fuzz.target import JSON_WORDS, Target, promised
from trimask_proto.v1 import common_pb2
from trimask_server.settings.config import load_config
from trimask_server.suites.rows.math import Assembler, slices
from trimask_simulation.people import answers_of, make_study
from trimask_theory.planning.study_definition import load_definition

__all__ = ["TARGETS"]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


_TOML_WORDS = (
    b"= -1\n",
    b"= 1e400\n",
    b"= nan\n",
    b'= ""\n',
    b"= []\n",
    b"[[",
    b"= [" + b"[" * 2000,
    b"= true\n",
    b"[privacy]\n",
)


@promised(StudyError)
def _signed_study(data: bytes) -> None:
    SignedStudy.from_json(data).verify()


@promised(StudyError)
def _study_text(data: bytes) -> None:
    SignedStudy.from_json(_text(data)).verify()


@promised(StudyError, TrimaskError)
def _definition(data: bytes) -> None:
    load_definition(_text(data))


@promised(ConfigError)
def _node_toml(data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="trimask-fuzz-") as folder:
        path = Path(folder) / "node.toml"
        path.write_bytes(data)
        load_config(path, "right")


@promised(VerificationError, StudyError)
def _manifest(data: bytes) -> None:
    Manifest.read(data, bytes(64))


@promised(VerificationError)
def _receipt(data: bytes) -> None:
    Receipt.from_json(_text(data)).verify(make_study()[0].study)


@promised(InvitationError)
def _link(data: bytes) -> None:
    Link.parse(_text(data))


@promised(VerificationError)
def _sealed(data: bytes) -> None:
    """What a device sends, and, as if it had opened, what is inside."""
    signed, keys = make_study()
    key = keys["R1"].sealing
    assert key is not None
    key.open(data, component_info(signed.study.id, 1, bytes(16)))


@promised(VerificationError)
def _component(data: bytes) -> None:
    read_component(make_study()[0].study, 1 + data[0] % 3 if data else 1, data[1:])


@cache
def _tagged_study() -> Study:
    """In a ring of unmasking nodes nobody removes its own mask, so there are tags."""
    study = make_study()[0].study
    return replace(study, suite=replace(study.suite, unmasking=("R2", "R3", "R1")))


@promised(VerificationError)
def _tagged_component(data: bytes) -> None:
    study, k = _tagged_study(), 1 + data[0] % 3 if data else 1
    read_component(study, k, data[1:])
    part = read_tags(study, k, data[1:])
    assert (len(part.keys), len(part.tagged.spare)) == (1, 32)


@promised(Refused)
def _slices(data: bytes) -> None:
    """A stream of slices, each with a length before it, into one matrix."""
    assembler = Assembler()
    while data:
        size, data = int.from_bytes(data[:2], "big"), data[2:]
        try:
            piece = common_pb2.MatrixSlice.FromString(data[:size])
        except Exception as error:  # noqa: BLE001 - protobuf's own, which the server refuses before this
            raise Refused(Reason.MALFORMED, type(error).__name__) from None
        assembler.add(piece, range(9, 18), 4)
        data = data[size:]
    if assembler.complete:
        assert assembler.take().shape[1] == 4


def _study_seeds() -> list[bytes]:
    signed = make_study()[0]
    return [signed.to_json().encode(), signed.without_seed().to_json().encode()]


def _definition_seeds() -> list[bytes]:
    from trimask_faults.lab import _DEFINITION

    private = _DEFINITION.replace("exact = true", "epsilon = 1.0\ndelta = 1e-6")
    derived = '[[derived]]\nname = "square"\nkind = "product"\nof = ["x", "x"]\n'
    return [_DEFINITION.encode(), private.encode(), (private + derived).encode()]


def _node_seeds() -> list[bytes]:
    return [
        b'name = "R1"\ndata = "data"\nkeys = "."\nlisten = "127.0.0.1:1"\npeer_listen = "127.0.0.1:2"\n',
        b'name = "R1"\ndata = "data"\nkeys = "."\nlisten = ":1"\npeer_listen = ":2"\n[store]\nurl = "postgresql://h/d"\n',
    ]


def _manifest_seeds() -> list[bytes]:
    signed = make_study()[0].without_seed()
    study = signed.study
    data = {
        "format": "trimask-manifest/1", "dataset_id": f"{study.id.hex()[:12]}-1", "study_id": study.id.hex(),
        "title": study.title, "release": 1, "published_ms": 1, "rows": 18, "stored_rows": 18, "columns": [],
        "sigma": 0.0, "guarantee": {"public": None, "collector": None}, "collusion": {}, "counts": {},
        "files": [{"name": name, "bytes": 1, "sha256": "0" * 64} for name in ("dataset.parquet", COUNTED_FILE)],
        "signed_study": json.loads(signed.to_json()), "previous": None,
    }  # fmt: skip
    return [json.dumps(data).encode()]


def _receipt_seeds() -> list[bytes]:
    study = make_study()[0].study
    providers = tuple(ProviderReceipt(f"R{k}", bytes(32), 1, bytes(64)) for k in (1, 2, 3))
    return [Receipt(study.id, bytes(16), providers).to_json().encode()]


def _link_seeds() -> list[bytes]:
    signed, keys = make_study()
    invitation = Invitation(signed.study.id, bytes(16), 1 << 40).signed_with(keys["collector"].identity)
    return [
        str(Link("collector.example.org:7000", signed.study.id, found)).encode()
        for found in (None, invitation)
    ]


def _sealed_seeds() -> list[bytes]:
    made = build_submission(make_study()[0].study, answers_of(0), DeterministicRandom("fuzz"))
    return list(made.sealed)


def _tagged_seeds() -> list[bytes]:
    study = _tagged_study()
    made = payloads(study, answers_of(0), SystemRandom())
    return [bytes([k]) + payload for k, payload in enumerate(made)]


def _component_seeds() -> list[bytes]:
    columns = make_study()[0].study.rows.columns
    return [b"\x00\x01" + bytes(32), b"\x02\x02" + bytes(8 * columns), b"\x02\x02" + b"\xff" * (8 * columns)]


def _slice_seeds() -> list[bytes]:
    whole = b""
    for piece in slices(np.ones((9, 4))):
        body = piece.SerializeToString()
        whole += len(body).to_bytes(2, "big") + body
    return [whole, whole + whole]


TARGETS: dict[str, Target] = {
    "signed_study": Target(_signed_study, _study_seeds, JSON_WORDS),
    "study_text": Target(_study_text, _study_seeds, JSON_WORDS),
    "definition": Target(_definition, _definition_seeds, _TOML_WORDS),
    "node_toml": Target(_node_toml, _node_seeds, _TOML_WORDS),
    "manifest": Target(_manifest, _manifest_seeds, JSON_WORDS),
    "receipt": Target(_receipt, _receipt_seeds, JSON_WORDS),
    "link": Target(_link, _link_seeds, (b"trimask://", b"/join/", b":65536", b":-1", b"=", "٣".encode())),
    "sealed": Target(_sealed, _sealed_seeds),
    "component": Target(_component, _component_seeds),
    "tagged_component": Target(_tagged_component, _tagged_seeds),
    "slices": Target(_slices, _slice_seeds, (b"\xff" * 8, b"\x00" * 8)),
} | MOMENTS_TARGETS

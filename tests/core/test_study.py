"""Studies: a canonical form with a stable id, every refusal by its reason, and approvals that count."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.errors import ApprovalError, ImpossibleStudy, StudyError
from trimask_core.basics.randomness import DeterministicRandom
from trimask_core.crypto.keys import SigningKey
from trimask_core.rows.arrays import device_frame
from trimask_core.study.definition import Study
from trimask_core.study.guarantee import Protection
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import Approval, SignedStudy, approve
from trimask_studies import changed, changed_dict

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "core-study.json").read_text(encoding="utf-8"))
Make = Callable[..., Any]


def test_known_id() -> None:
    study = Study.from_dict(json.loads(VECTOR["canonical"]))
    assert study.canonical.decode() == VECTOR["canonical"]
    assert study.id.hex() == VECTOR["id"] == hashlib.sha256(VECTOR["canonical"].encode()).hexdigest()


def test_canonical_round_trip(make_study: Make) -> None:
    for made in (
        make_study(),
        make_study(right=2, left=1, sigma=0.0),
        make_study(title='Größe, 身長 "quoted"', purpose="two\nlines"),
    ):
        study = made.study
        again = Study.from_dict(json.loads(study.canonical))
        assert (again, again.canonical, again.id) == (study, study.canonical, study.id)
        assert SignedStudy.from_json(made.signed.to_json()) == made.signed
        assert SignedStudy.from_json(made.signed.to_json().encode()).verify() == study


def test_the_id_covers_every_field(made_study: Any) -> None:
    study = made_study.study
    relabelled = replace(study.schema.attributes[0], label="Years")
    changes: dict[str, Any] = {
        "title": "x", "purpose": "x", "contact": "x", "created_ms": 5, "release_rows": 99, "tls_roots": "x",
        "noise_columns": study.rows.noise_columns + 1, "tau": study.rows.tau * 2, "mask_commitment": bytes(32),
        "obfuscation_failure": 1e-8, "grid_exponent": study.rows.grid_exponent + 1, "share_leakage": 2.0**-19,
        "protection": replace(study.protection, method="theorem"),
        "schema": replace(study.schema, attributes=(relabelled, *study.schema.attributes[1:])),
        "collector": replace(study.collector, address="elsewhere:1"),
        "right": (replace(study.right[0], organisation="x"), *study.right[1:]),
        "left": (replace(study.left[0], peer_address="x"), *study.left[1:]),
        "block_rows": study.rows.block_rows - 1,
        "unmasking": ("R3", "R1", "R2"),
        "noise_columns_mu": study.rows.noise_columns_mu * 2,
    }  # fmt: skip
    names = (set(study.to_dict()) | set(study.to_dict()["suite"])) - {"format", "suite", "name"}
    unlike = {"admission", "admission_signer", "owner_key", "form", "access", "licence", "web"}
    unlike |= {"publishing_steps"}
    assert set(changes) | unlike == names
    ids = {changed(study, **{name: value, "mask_seed": b""}).id for name, value in changes.items()}
    assert len(ids | {study.id}) == len(changes) + 1


def test_sizes(study: Study) -> None:
    assert study.attributes == len(study.schema.columns) == 9
    assert study.rows.columns == study.attributes + study.rows.noise_columns
    assert study.rows.max_block_rows == 2 * study.rows.block_rows - 1
    assert study.rows.share_scale == 2 * study.protection.row_norm / study.rows.share_leakage
    assert study.rows.share_steps == study.rows.share_scale / study.rows.grid.step
    assert (device_frame(study).rows, device_frame(study).columns) == (study.attributes, study.rows.columns)
    assert list(study.parties) == ["R1", "R2", "R3", "L1", "L2", "collector"]
    assert study.rows.topology.unmasking == ("R1", "R2", "L2")
    assert study.role_of(study.left[1].identity) == "L2"
    assert study.party("L2") is study.left[1]
    with pytest.raises(StudyError, match="no party R9"):
        study.party("R9")
    with pytest.raises(StudyError, match="not named"):
        study.role_of(bytes(32))


def test_unknown_and_missing_fields(study: Study) -> None:
    data = study.to_dict()
    for name in data:
        if name != "format":
            with pytest.raises(StudyError, match=f"study field {name} is missing"):
                Study.from_dict({key: value for key, value in data.items() if key != name})
    with pytest.raises(StudyError, match="study field colour is unknown"):
        Study.from_dict({**data, "colour": "blue"})
    for text in ("trimask-study/2", None):
        with pytest.raises(StudyError, match="format"):
            Study.from_dict({**data, "format": text})


@pytest.mark.parametrize(
    "path",
    [
        ("schema",), ("schema", "attributes", 0), ("schema", "attributes", 2), ("schema", "derived", 0),
        ("suite",), ("protection",), ("protection", "public"), ("protection", "public", "neighbours"), ("collector",),
        ("right", 1),
    ],
    ids=str,
)  # fmt: skip
def test_unknown_fields_further_in(study: Study, path: tuple[str | int, ...]) -> None:
    data = json.loads(study.canonical)
    inner = data
    for key in path:
        inner = inner[key]
    inner["colour"] = "blue"
    with pytest.raises(StudyError):
        Study.from_dict(data)


def test_repro_settings_outside_the_canonical_form_are_refused(made_study: Any) -> None:
    """Bounds slipped into a yes/no attribute left the id, and so every signature, as it was, but changed the row."""
    data = json.loads(made_study.signed.to_json())
    (smoker,) = [item for item in data["study"]["schema"]["attributes"] if item["name"] == "smoker"]
    smoker |= {"minimum": -1e9, "maximum": 1.0}
    with pytest.raises(StudyError):
        SignedStudy.from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("block_rows", 16.0), ("block_rows", "16"), ("block_rows", True), ("title", 3), ("tau", "1"), ("created_ms", 1.5),
        ("created_ms", math.nan), ("tau", None), ("right", 3), ("right", [1]), ("mask_commitment", "*"),
        ("mask_commitment", 5),
        ("schema", {}), ("schema", None), ("protection", {}), ("collector", {}), ("unmasking", 4),
        ("noise_columns", 10**400),
        ("block_rows", 10**400), ("grid_exponent", 0.5),
        ("protection", {"row_norm": "x", "sigma": 0, "method": "x", "public": None, "collector": None}),
    ],
    ids=lambda value: str(value)[:20],
)  # fmt: skip
def test_fields_of_the_wrong_type(study: Study, name: str, value: Any) -> None:
    with pytest.raises(StudyError):
        Study.from_dict(changed_dict(study, name, value))


def _protection(study: Study, **changes: Any) -> dict[str, Any]:
    return {"protection": replace(study.protection, **changes)}


IMPOSSIBLE: list[tuple[str, Callable[[Study], dict[str, Any]]]] = [
    ("block_too_small", lambda s: {"block_rows": s.attributes}),
    ("block_too_small", lambda _: {"block_rows": 0}),
    ("block_too_small", lambda _: {"block_rows": -5}),
    ("release_too_small", lambda s: {"release_rows": s.rows.block_rows - 1}),
    ("too_few_providers", lambda s: {"right": s.right[:1], "unmasking": ("R1",)}),
    ("too_few_providers", lambda _: {"left": ()}),
    ("share_leakage", lambda _: {"share_leakage": 0.0}),
    ("share_leakage", lambda _: {"share_leakage": 2.0**-9}),
    ("share_leakage", lambda _: {"share_leakage": math.nan}),
    ("obfuscation_failure", lambda _: {"obfuscation_failure": 0.0}),
    ("obfuscation_failure", lambda _: {"obfuscation_failure": 0.01}),
    ("row_norm", lambda s: _protection(s, row_norm=0.0)),
    ("row_norm", lambda s: _protection(s, row_norm=s.schema.row_norm * 1.01)),
    ("row_norm", lambda s: _protection(s, row_norm=math.nan)),
    ("sigma", lambda s: _protection(s, sigma=-1.0)),
    ("sigma", lambda s: _protection(s, sigma=math.inf)),
    ("sigma", lambda s: _protection(s, sigma=s.protection.sigma * (1 - 1e-9))),
    ("sigma", lambda _: {"tau": math.nan}),
    ("tau", lambda s: {"tau": s.rows.tau * 0.999}),
    ("tau", lambda _: {"tau": 0.0}),
    ("tau", lambda s: {"tau": -s.rows.tau}),
    ("too_few_columns", lambda s: {"noise_columns": s.rows.max_block_rows - s.attributes - 1}),
    ("too_few_columns", lambda _: {"noise_columns": -1}),
    ("too_few_noise_columns", lambda s: {"noise_columns": s.rows.max_block_rows}),
    ("grid_overflow", lambda s: {"grid_exponent": s.rows.grid_exponent - 1}),
    ("grid_overflow", lambda s: {"share_leakage": s.rows.share_leakage / 4}),
    ("grid_overflow", lambda s: {"tau": s.rows.share_scale}),
    ("grid_too_coarse", lambda _: {"grid_exponent": -11}),
    ("grid_too_coarse", lambda _: {"grid_exponent": 4000}),
    ("grid_too_coarse", lambda _: {"share_leakage": 5e-324}),
    ("same_party_twice", lambda s: {"left": (s.left[0], replace(s.left[1], identity=s.right[0].identity))}),
    ("same_party_twice", lambda s: {"left": (s.left[0], replace(s.left[1], tls_name=s.collector.tls_name))}),
    ("same_party_twice", lambda s: {"right": (*s.right[:2], replace(s.right[2], sealing=s.right[0].sealing))}),
    ("bad_key", lambda s: {"left": (s.left[0], replace(s.left[1], identity=b"short"))}),
    ("bad_key", lambda s: {"right": (*s.right[:2], replace(s.right[2], sealing=b""))}),
    ("bad_key", lambda s: {"left": (s.left[0], replace(s.left[1], sealing=bytes(32)))}),
    ("bad_key", lambda _: {"mask_seed": b"short"}),
    ("bad_unmasking", lambda _: {"unmasking": ("R1", "R2")}),
    ("bad_unmasking", lambda _: {"unmasking": ("R1", "R2", "R9")}),
    ("single_breaker", lambda s: {"right": s.right[:2], "unmasking": ("R2", "R1")}),
    ("noise_columns_mu", lambda s: {"noise_columns_mu": s.rows.noise_columns_mu * 0.999}),
    ("noise_columns_mu", lambda _: {"noise_columns_mu": math.inf}),
    ("publishing_steps", lambda _: {"publishing_steps": 1}),
    ("publishing_steps", lambda s: {**_protection(s, sigma=0.0, public=None, collector=None, right_providers=None)}),
    ("sigma", lambda s: _protection(s, sigma=7 * s.rows.grid.step)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "change"), IMPOSSIBLE, ids=[f"{r}-{i}" for i, (r, _) in enumerate(IMPOSSIBLE)]
)
def test_impossible_studies(study: Study, reason: str, change: Callable[[Study], dict[str, Any]]) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        changed(study, **change(study))
    assert caught.value.reason == reason


def test_each_reason_has_its_own_message(study: Study) -> None:
    messages: dict[str, str] = {}
    for reason, change in IMPOSSIBLE:
        with pytest.raises(ImpossibleStudy) as caught:
            changed(study, **change(study))
        assert messages.setdefault(str(caught.value), reason) == reason


def test_the_checks_are_made_when_a_study_is_read(study: Study) -> None:
    with pytest.raises(ImpossibleStudy) as caught:
        Study.from_dict(changed_dict(study, "tau", study.rows.tau / 2))
    assert caught.value.reason == "tau"


def test_the_least_study_that_can_be(make_study: Make) -> None:
    schema = Schema((Attribute("x", "binary"),), ones=False)
    study = make_study(schema=schema, right=2, left=1, block_rows=2, sigma=0.0).study
    assert (study.attributes, study.protection) == (1, Protection(1.0, 0.0, "exact"))


def test_every_party_must_approve(made_study: Any) -> None:
    signed = made_study.signed
    assert signed.missing == ()
    assert signed.verify() is signed.study
    for i, approval in enumerate(signed.approvals):
        partly = replace(signed, approvals=signed.approvals[:i] + signed.approvals[i + 1 :])
        assert partly.missing == (approval.role,)
        with pytest.raises(ApprovalError, match=f"not approved yet by {approval.role}"):
            partly.verify()
    with pytest.raises(ApprovalError, match="R1, R2, R3, L1, L2, collector"):
        SignedStudy(signed.study).verify()


def test_forged_approvals(made_study: Any, make_study: Make) -> None:
    signed, (first, *rest) = made_study.signed, made_study.signed.approvals
    stranger = SigningKey.generate(DeterministicRandom("stranger"))
    other_study = make_study(title="another").study
    forged = [
        replace(first, signature=bytes(64)),
        replace(first, signature=b""),
        replace(first, signature=stranger.sign("study-approval", signed.study.id + b"\0R1")),
        replace(
            first, signature=made_study.identities["R2"].sign("study-approval", signed.study.id + b"\0R1")
        ),
        replace(first, signature=made_study.identities["R1"].sign("receipt", signed.study.id + b"\0R1")),
        approve(other_study, made_study.identities["R1"], 1),
        replace(first, role="R9"),
    ]
    for approval in forged:
        with pytest.raises(ApprovalError, match=approval.role):
            SignedStudy(signed.study, (approval, *rest)).verify()
        # A good approval beside it does not make a forged one harmless.
        with pytest.raises(ApprovalError):
            SignedStudy(signed.study, (first, approval, *rest)).verify()


def test_only_a_party_can_approve(study: Study) -> None:
    with pytest.raises(StudyError, match="not named"):
        approve(study, SigningKey.generate(DeterministicRandom("nobody")), 1)


def test_approvals_are_gathered_one_by_one(made_study: Any) -> None:
    signed = SignedStudy(made_study.study)
    for role in made_study.study.parties:
        assert role in signed.missing
        signed = signed.with_approval(approve(made_study.study, made_study.identities[role], 7))
    assert signed.verify() is made_study.study
    again = signed.with_approval(approve(made_study.study, made_study.identities["R1"], 9))
    assert len(again.approvals) == len(signed.approvals)
    assert {a.approved_ms for a in again.approvals if a.role == "R1"} == {9}
    assert Approval.from_dict(json.loads(json.dumps(again.approvals[0].to_dict()))) == again.approvals[0]


@pytest.mark.parametrize(
    "text", ["", "[]", "3", "{}", '{"study": {}}', '{"study": {}, "approvals": [{}]}', "null"]
)
def test_what_is_not_a_signed_study(text: str) -> None:
    with pytest.raises(StudyError):
        SignedStudy.from_json(text)


def test_a_licence_is_part_of_what_is_signed(make_study: Any) -> None:
    plain, licensed = (
        make_study().study,
        make_study(licence="https://creativecommons.org/licenses/by/4.0/").study,
    )
    assert plain.to_dict()["licence"] == ""
    assert plain.id != licensed.id
    assert Study.from_dict(licensed.to_dict()).licence.endswith("/by/4.0/")

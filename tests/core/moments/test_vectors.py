"""The committed vectors are what the code makes, and hold by themselves: read as another implementation would."""

from __future__ import annotations

import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from trimask_core.basics.errors import VerificationError
from trimask_core.moments.field import P, expand_elements
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    Challenge,
    challenge_key,
    check_share_form,
    derive_challenge,
    forms,
    read_share,
    verdict,
)
from trimask_core.study.schema import Schema
from trimask_core.study.weight import Weight

FOLDER = Path(__file__).parents[2] / "vectors"
MAKE: dict[str, Any] = runpy.run_path(str(FOLDER / "make_moments_vectors.py"))
REPORTS: dict[str, Any] = json.loads((FOLDER / "moments-reports.json").read_text(encoding="utf-8"))
REFUSED: dict[str, Any] = json.loads((FOLDER / "moments-refused.json").read_text(encoding="utf-8"))


def test_making_them_again_gives_the_same_files() -> None:
    for name, document in MAKE["documents"]().items():
        assert (FOLDER / name).read_text(encoding="utf-8") == MAKE["written"](document), name


def layout_of(case: dict[str, Any]) -> MomentsLayout:
    weight = None if case.get("weight") is None else Weight.from_dict(case["weight"])
    return MomentsLayout.of(Schema.from_dict(case["schema"]), case.get("row_norm"), weight)


def challenge_of(data: dict[str, Any]) -> Challenge:
    return Challenge(
        tuple(map(int, data["u"])), int(data["u_rho"]), int(data["r"]), tuple(map(int, data["g"]))
    )


def test_expansion() -> None:
    expansion = REPORTS["expansion"]
    assert expand_elements(bytes.fromhex(expansion["seed"]), 8) == list(map(int, expansion["elements"]))
    assert int(REPORTS["p"]) == P


@pytest.mark.parametrize("case", REPORTS["cases"], ids=lambda case: case["name"])
def test_a_report_from_its_bytes(case: dict[str, Any]) -> None:
    layout, study = layout_of(case), bytes.fromhex(REPORTS["study_id"])
    sent = [bytes.fromhex(payload) for payload in case["payloads"]]
    shares = [read_share(payload, k, len(sent), layout.elements) for k, payload in enumerate(sent, 1)]
    elements = [sum(values) % P for values in zip(*shares, strict=True)]
    assert elements == list(map(int, case["elements"]))
    assert elements[: layout.bits] == [int(bit) for bit in case["bits"]]
    first, _ = layout.totals_of(elements, reports=1)
    root = case["root"]
    expected = [root * root * z % P for z in case["z"]]
    assert first == (expected if case["weight"] is None else [root * root, *expected])
    key = challenge_key(study, [bytes.fromhex(each) for each in case["contributions"]])
    assert key.hex() == case["challenge_key"]
    bucket = bytes.fromhex(case["submission_id"])[0]
    challenge = derive_challenge(key, study, bucket, layout)
    assert challenge == challenge_of(case["challenge"])
    form = forms(layout, challenge)
    said = [form.apply(share, first=k == 0) for k, share in enumerate(shares)]
    assert said == [tuple(map(int, values)) for values in case["opened_by"]]
    sums = [sum(values) % P for values in zip(*said, strict=True)]
    assert sums == [int(value) for value in case["opened"].values()]
    assert verdict(sums) is case["verdict"] is None
    # rho and f(0) are the first two reads; no P among them
    rho, f_zero = (int.from_bytes(bytes.fromhex(read), "little") & P for read in case["randomness"][:2])
    assert (elements[layout.rho], elements[layout.f_zero]) == (rho, f_zero)
    assert case["randomness"][2:] == [payload.hex()[2:] for payload in sent[:-1]]


def test_the_cases_cover_both_sides_of_the_ball() -> None:
    assert {case["clipped"] for case in REPORTS["cases"] if case["row_norm"]} == {True, False}
    assert len({hashlib.sha256(case["payloads"][0].encode()).digest() for case in REPORTS["cases"]}) == len(
        REPORTS["cases"]
    )


def test_every_altered_element_is_refused_with_its_reason() -> None:
    layout = layout_of(REFUSED)
    form = forms(layout, challenge_of(REFUSED["challenge"]))
    honest = list(map(int, REFUSED["honest"]))
    assert verdict(form.apply(honest, True)) is REFUSED["honest_verdict"] is None
    assert [case["place"] for case in REFUSED["altered"]] == list(range(layout.elements))
    for case in REFUSED["altered"]:
        altered = list(honest)
        altered[case["place"]] = int(case["value"])
        assert altered != honest
        assert verdict(form.apply(altered, True)) == case["verdict"] is not None
    for case in REFUSED["roots"]:
        assert verdict(form.apply(list(map(int, case["elements"])), True)) == case["verdict"] == "bad_bits"


@pytest.mark.parametrize("name", REFUSED["payloads_for_the_last_of_two"])
def test_payloads_that_are_refused(name: str) -> None:
    payload = bytes.fromhex(REFUSED["payloads_for_the_last_of_two"][name])
    with pytest.raises(VerificationError):
        check_share_form(payload, 2, 2, layout_of(REFUSED).elements)

"""Two implementations, one set of vectors: what another team would write from the document computes the same."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import moments_vdaf as second

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "vectors"
REPORTS, REFUSED, TOTALS = (
    json.loads((VECTORS / f"moments-{name}.json").read_text()) for name in ("reports", "refused", "totals")
)
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in REPORTS["cases"]}
STUDY = bytes.fromhex(REPORTS["study_id"])


def whole(values: Any) -> list[int]:
    return [int(value) for value in values]


def challenge_of(data: dict[str, Any]) -> tuple[list[int], int, int, list[int]]:
    return whole(data["u"]), int(data["u_rho"]), int(data["r"]), whole(data["g"])


def test_it_shares_nothing_with_the_product_and_is_short() -> None:
    text = (TESTS / "support" / "moments_vdaf.py").read_text()
    assert len(text.splitlines()) < 400
    imported = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else name.name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert imported - set(sys.stdlib_module_names) == {"cryptography"}


def test_expansion() -> None:
    expansion = REPORTS["expansion"]
    source = second.elements_of(second.stream(bytes.fromhex(expansion["seed"]), b"moments share"))
    assert second.take(source, 8) == whole(expansion["elements"])


@pytest.mark.parametrize("name", CASES)
def test_a_report_from_measurement_to_verdict(name: str) -> None:
    case = CASES[name]
    instance, count = second.Instance(case["layout"]), len(case["payloads"])
    assert instance.length == case["layout"]["elements"]
    checks = [
        {"terms": sorted([i, str(c)] for i, c in terms.items()), "total": str(total)}
        for terms, total in instance.checks()
    ]
    listed = [
        {"terms": sorted(item["terms"]), "total": item["total"]} for item in case["layout"]["linear_checks"]
    ]
    assert checks == listed
    bits = instance.encode(case["z"], case["root"])
    assert "".join(map(str, bits)) == case["bits"]
    # Of a read where P was drawn first, the last element counts.
    drawn = [bytes.fromhex(read) for read in case["randomness"]]
    rho, f_zero = (value & second.P for value in whole_words(drawn[: -(count - 1)]))
    report = instance.prove(bits, case["z"], case["root"], rho, f_zero)
    assert report == whole(case["elements"])
    payloads = instance.shard(report, drawn[-(count - 1) :])
    assert [payload.hex() for payload in payloads] == case["payloads"]
    contributions = [bytes.fromhex(item) for item in case["contributions"]]
    assert [second.contribution_hash(item).hex() for item in contributions] == case["contribution_hashes"]
    key = second.challenge_key(STUDY, contributions)
    assert key.hex() == case["challenge_key"]
    assert bytes.fromhex(case["submission_id"])[0] == case["bucket"]
    challenge = instance.challenge(key, STUDY, case["bucket"])
    assert challenge == challenge_of(case["challenge"])
    shares = [instance.read_share(payload, k, count) for k, payload in enumerate(payloads, 1)]
    said = [instance.verifier(challenge, share, k == 0) for k, share in enumerate(shares)]
    assert said == [whole(values) for values in case["opened_by"]]
    opened = [sum(values) % second.P for values in zip(*said, strict=True)]
    assert opened == whole(case["opened"].values())
    assert second.decide(said) == case["verdict"] is None


def whole_words(reads: list[bytes]) -> list[int]:
    """Of each read of 8 bytes its word; words that stand for P were passed over."""
    words = [int.from_bytes(read, "little") for read in reads]
    return [word for word in words if word & second.P != second.P]


def test_reports_that_are_refused() -> None:
    instance = second.Instance(CASES["a row inside the ball"]["layout"])
    challenge, honest = challenge_of(REFUSED["challenge"]), whole(REFUSED["honest"])

    def found(elements: list[int]) -> str | None:
        return second.decide([instance.verifier(challenge, elements, True)])

    assert found(honest) is REFUSED["honest_verdict"] is None
    assert len(REFUSED["altered"]) == instance.length
    for one in REFUSED["altered"]:
        altered = [*honest]
        altered[one["place"]] = int(one["value"])
        assert found(altered) == one["verdict"] is not None, one
    for one in REFUSED["roots"]:
        assert found(whole(one["elements"])) == one["verdict"] is not None, one


def test_whoever_counts_too_much_is_refused() -> None:
    weighted = REFUSED["weighted"]
    instance = second.Instance(CASES["weights by the levels of a choice"]["layout"])
    challenge = challenge_of(weighted["challenge"])
    assert second.decide([instance.verifier(challenge, whole(weighted["honest"]), True)]) is None
    for name, one in weighted["cases"].items():
        elements = [value % second.P for value in whole(one["elements"])]
        found = second.decide([instance.verifier(challenge, elements, True)])
        assert found == one["verdict"] is not None, name


def test_payloads_that_are_refused() -> None:
    instance = second.Instance(CASES["a row inside the ball"]["layout"])
    for name, payload in REFUSED["payloads_for_the_last_of_two"].items():
        with pytest.raises(second.Rejected):
            print(name, instance.read_share(bytes.fromhex(payload), 2, 2))
    for payload in (b"", b"\x01", b"\x01" + bytes(31), b"\x01" + bytes(33), b"\x02" + bytes(32)):
        with pytest.raises(second.Rejected):
            instance.read_share(payload, 1, 2)


@pytest.mark.parametrize("case", TOTALS["cases"], ids=lambda case: case["study"])
def test_from_reports_to_published_totals(case: dict[str, Any]) -> None:
    instance, key = second.Instance(CASES[case["study"]]["layout"]), bytes.fromhex(case["challenge_key"])
    accepted = []
    for report in case["reports"]:
        payloads = [bytes.fromhex(payload) for payload in report["payloads"]]
        shares = [instance.read_share(payload, k, len(payloads)) for k, payload in enumerate(payloads, 1)]
        challenge = instance.challenge(key, STUDY, bytes.fromhex(report["submission_id"])[0])
        said = [instance.verifier(challenge, share, k == 0) for k, share in enumerate(shares)]
        assert second.decide(said) == report["verdict"]
        if report["verdict"] is None:
            accepted.append(shares)
    assert len(accepted) == len(case["reports"]) - 1
    totals = [
        instance.aggregate([shares[k] for shares in accepted], k == 0) for k in range(len(case["totals"]))
    ]
    assert totals == [whole(values) for values in case["totals"]]
    noise = instance.noise(case["sigma"], case["honest"])
    assert noise == [(int(item["sigma"]), item["shift"]) for item in case["noise"]]
    shifts = [shift for _, shift in noise]
    deliveries = [
        second.deliver(own, whole(drawn), shifts) for own, drawn in zip(totals, case["drawn"], strict=True)
    ]
    assert [second.encode_vector(values).hex() for values in deliveries] == case["deliveries"]
    assert second.unshard(deliveries) == whole(case["published"])
    assert second.unshard(totals) == whole(case["exact"])


def test_deliveries_that_are_refused() -> None:
    count = len(TOTALS["cases"][0]["published"])
    for name, delivery in TOTALS["deliveries_refused"].items():
        with pytest.raises(second.Rejected):
            print(name, second.decode_vector(bytes.fromhex(delivery), count))

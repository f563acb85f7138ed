"""Writes moments-reports.json, moments-refused.json and moments-totals.json: `python tests/vectors/make_moments_vectors.py`.

They are for clients in other languages. Field elements are decimal strings, because JSON's numbers hold 53 bits in many
languages; bytes are hexadecimal. `randomness` is every read of a report and its split, in order: rho and f(0), 8 bytes
each (and more where P was rejected), then a seed of 32 bytes for each right provider but the last.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from trimask_core.basics.randomness import RoundedGaussian, Stream
from trimask_core.moments.columns import MomentsColumn
from trimask_core.moments.field import P, expand_elements, pack
from trimask_core.moments.layout import MomentsLayout
from trimask_core.moments.report import (
    FORMS,
    Challenge,
    _elements,
    bucket_of,
    build_report,
    challenge_key,
    contribution_hash,
    derive_challenge,
    forms,
    read_share,
    share_payloads,
    split,
    verdict,
)
from trimask_core.moments.totals import decode
from trimask_core.study.derived import Derived
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.weight import Weight
from trimask_server.suites.moments.batch_store import add_up

FOLDER = Path(__file__).parent
STUDY = bytes(range(32))
CONTRIBUTIONS = [hashlib.sha256(f"contribution of R{k}".encode()).digest() for k in (1, 2, 3)]
HOURS = Attribute("hours", "continuous", 0, 6, step=0.5, centre=2, scale=2)
SMOKER = Attribute("smoker", "binary")
REGION = Attribute("region", "categorical", levels=("north", "south", "west"))
AGE = Attribute("age", "integer", 18, 90)
WEIGHT = Attribute("weight", "continuous", 40, 200)
SMALL = Schema((HOURS, SMOKER, REGION), (Derived("hours_smoker", "product", ("hours", "smoker")),))
LARGE = Schema(
    (AGE, WEIGHT, SMOKER, REGION),
    (Derived("age_squared", "square", ("age",)), Derived("log_weight", "log", ("weight",))),
)
EFFECTS = Schema(
    (AGE, HOURS, SMOKER, REGION),
    (
        Derived("age_group", "bins", ("age",), cuts=(40, 65)),
        Derived("long", "threshold", ("hours",), cuts=(3.0,)),
        Derived("region_hours", "product", ("region", "hours")),
        Derived("region_age", "product", ("region", "age_group")),
        Derived("three", "product", ("region_age", "smoker")),
    ),
)
DESIGN = Schema((HOURS, SMOKER, Attribute("design_weight", "continuous", 0.5, 8.0)))
BY_REGION = Weight("region", (1.0, 2.5, 4.0), 256)
CASES: list[tuple[str, Schema, float | None, dict[str, Any], int, Weight | None]] = [
    ("one binary answer", Schema((SMOKER,)), None, {"smoker": True}, 2, None),
    ("a grid with centre and scale, a choice, a product", SMALL, None,
     {"hours": 6, "smoker": False, "region": "north"}, 2, None),
    ("a row inside the ball", SMALL, 2.25, {"hours": 2.5, "smoker": True, "region": "west"}, 2, None),
    ("a row shrunk to the ball", SMALL, 2.25, {"hours": 6, "smoker": True, "region": "west"}, 3, None),
    ("steps of a thousandth, a square, a logarithm", LARGE, None,
     {"age": 37, "weight": 71.3, "smoker": False, "region": "south"}, 3, None),
    ("bins, a threshold, products with choices, a product of three", EFFECTS, None,
     {"age": 64, "hours": 3, "smoker": True, "region": "north"}, 2, None),
    ("bins of a number that is shrunk to the ball", EFFECTS, 2.9,
     {"age": 90, "hours": 6, "smoker": True, "region": "west"}, 2, None),
    ("weights by the levels of a choice", SMALL, None, {"hours": 4.5, "smoker": True, "region": "south"}, 2, BY_REGION),
    ("weights by bins of a number that is shrunk to the ball", EFFECTS, 2.9,
     {"age": 90, "hours": 6, "smoker": True, "region": "west"}, 2, Weight("age_group", (3.0, 1.0, 0.25), 64)),
    ("a weight that is answered", DESIGN, None, {"hours": 1, "smoker": True, "design_weight": 3.2}, 3,
     Weight("design_weight", (), 1024)),
]  # fmt: skip


class Recorded:
    """A repeatable source that keeps what was read from it."""

    def __init__(self, label: str) -> None:
        self._stream = Stream(hashlib.sha256(label.encode()).digest(), b"moments vectors")
        self.reads: list[str] = []

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self.reads.append(data.hex())
        return data

    def seed(self) -> bytes:
        return self.read(32)


def numbers(values: Any) -> list[str]:
    """Whole numbers as strings."""
    return [str(value) for value in values]


def challenge_dict(challenge: Challenge) -> dict[str, Any]:
    """A challenge, which is a secret everywhere but here."""
    return {
        "u": numbers(challenge.u),
        "u_rho": str(challenge.u_rho),
        "r": str(challenge.r),
        "g": numbers(challenge.g),
    }


def column_dict(column: MomentsColumn) -> dict[str, Any]:
    """A column as another implementation should find it."""
    return {
        "name": column.name, "kind": column.kind, "offset": column.offset, "width": column.width,
        "largest": column.largest, "first_bit": column.first_bit, "weights": list(column.weights),
        "factors": column.factors and list(column.factors),
    }  # fmt: skip


def layout_dict(layout: MomentsLayout) -> dict[str, Any]:
    """What another implementation should find before it makes a report."""
    ball = layout.ball
    return {
        "bits": layout.bits,
        "elements": layout.elements,
        "radius_squared": str(layout.radius_squared),
        "columns": [column_dict(column) for column in layout.columns],
        "root": layout.root and column_dict(layout.root),
        "choices": [list(bits) for bits in layout.choices],
        "comparisons": [
            {
                "number": layout.columns[item.number].name, "bits": list(item.bits), "first": list(item.first),
                "last": list(item.last), "above": item.above, "below": item.below, "weights": list(item.weights),
            }
            for item in layout.comparisons
        ],
        "linear_checks": [
            {"terms": [[index, str(coefficient)] for index, coefficient in item.terms], "total": str(item.total)}
            for item in layout.linear_checks
        ],
        "ball": ball and {
            "exponent": ball.exponent, "coefficients": numbers(ball.coefficients), "capacity": str(ball.capacity),
            "first_bit": layout.ball_bit, "weights": numbers(ball.weights),
        },
    }  # fmt: skip


def report_case(
    name: str,
    schema: Schema,
    row_norm: float | None,
    answers: dict[str, Any],
    providers: int,
    weight: Weight | None,
) -> dict[str, Any]:
    """One honest report from answers to verdict."""
    layout, source = MomentsLayout.of(schema, row_norm, weight), Recorded(name)
    encoded = layout.encode(answers)
    elements = build_report(layout, answers, source)
    seeds, vector = split(elements, providers, source)
    contributions = CONTRIBUTIONS[:providers]
    submission = hashlib.sha256(name.encode()).digest()[:16]
    key, bucket = challenge_key(STUDY, contributions), bucket_of(submission)
    challenge = derive_challenge(key, STUDY, bucket, layout)
    form = forms(layout, challenge)
    sent = share_payloads(seeds, vector)
    shares = [read_share(payload, k, providers, layout.elements) for k, payload in enumerate(sent, 1)]
    said = [form.apply(share, first=k == 0) for k, share in enumerate(shares)]
    sums = [sum(values) % P for values in zip(*said, strict=True)]
    return {
        "name": name,
        "schema": schema.to_dict(),
        "row_norm": row_norm,
        "weight": weight and weight.to_dict(),
        "answers": answers,
        "layout": layout_dict(layout),
        "randomness": source.reads,
        "bits": "".join(map(str, encoded.bits)),
        "z": list(encoded.z),
        "clipped": encoded.clipped,
        "root": encoded.root,
        "elements": numbers(elements),
        "payloads": [payload.hex() for payload in sent],
        "submission_id": submission.hex(),
        "contributions": [contribution.hex() for contribution in contributions],
        "contribution_hashes": [contribution_hash(contribution).hex() for contribution in contributions],
        "challenge_key": key.hex(),
        "bucket": bucket,
        "challenge": challenge_dict(challenge),
        "opened_by": [numbers(values) for values in said],
        "opened": dict(zip(FORMS, numbers(sums), strict=True)),
        "verdict": verdict(sums),
    }


def refused() -> dict[str, Any]:
    """Reports and payloads that must not be accepted, each with the reason."""
    _, schema, row_norm, answers, _, _ = CASES[2]
    layout = MomentsLayout.of(schema, row_norm)
    honest = build_report(layout, answers, Recorded("refused"))
    challenge = derive_challenge(challenge_key(STUDY, CONTRIBUTIONS[:2]), STUDY, 7, layout)
    form = forms(layout, challenge)

    def of(elements: list[int]) -> str | None:
        return verdict(form.apply(elements, first=True))

    altered = []
    for place in range(layout.elements):
        value = (honest[place] + 1) % P
        altered.append(
            {
                "place": place,
                "value": str(value),
                "verdict": of([*honest[:place], value, *honest[place + 1 :]]),
            }
        )
    # Proofs over one bit that is another root of b^2 - b = c; z and the products follow from the bits.
    encoded, roots = layout.encode(answers), []
    for value in (2, P - 1, 3, P - 2):
        bits, z = [value, *encoded.bits[1:]], list(encoded.z)
        z[0] += 2 * (value - encoded.bits[0])
        z[4] = z[0] * z[1]
        elements = _elements(bits, z, 123456789, 987654321)
        roots.append({"bit": 0, "value": str(value), "elements": numbers(elements), "verdict": of(elements)})
    weighted = weights_refused()
    vector = pack(honest)
    wrong = {
        "a vector one byte short": b"\x02" + vector[:-1],
        "a vector one element short": b"\x02" + vector[:-8],
        "a vector one element long": b"\x02" + vector + bytes(8),
        "an element that is P": b"\x02" + P.to_bytes(8, "little") + vector[8:],
        "an element of 64 ones": b"\x02" + vector[:-8] + b"\xff" * 8,
        "the kind of a seed": b"\x01" + vector,
        "a seed in the place of the vector": b"\x01" + bytes(32),
        "nothing": b"",
    }
    return {
        "what": "Reports and payloads of the moments suite that are refused, over one small report.",
        "source": "tests/vectors/make_moments_vectors.py",
        "schema": schema.to_dict(),
        "row_norm": row_norm,
        "honest": numbers(honest),
        "honest_verdict": of(honest),
        "challenge": challenge_dict(challenge),
        "altered": altered,
        "roots": roots,
        "weighted": weighted,
        "payloads_for_the_last_of_two": {name: payload.hex() for name, payload in wrong.items()},
    }


def weights_refused() -> dict[str, Any]:
    """Reports of a weighted study by whoever counts more than the study says: the best proofs there are for them."""
    schema, answers = SMALL, {"hours": 4.5, "smoker": True, "region": "south"}
    layout = MomentsLayout.of(schema, None, BY_REGION)
    challenge = derive_challenge(challenge_key(STUDY, CONTRIBUTIONS[:2]), STUDY, 7, layout)
    form, encoded = forms(layout, challenge), layout.encode(answers)
    root, z, q = encoded.root, list(encoded.z), layout.q
    largest = layout.root.largest if layout.root else 0

    def proved(s: int, columns: list[int]) -> list[int]:
        return _elements(encoded.bits, [*z, s, *columns], 123456789, 987654321)

    cases = {
        "the root of another level": proved(largest, [largest * value for value in z]),
        "a root beyond the largest": proved(2 * largest, [2 * largest * value for value in z]),
        "a root of 0": proved(0, [0] * q),
        "minus the root": proved(-root, [-root * value for value in z]),
        "one column with a larger root": proved(root, [largest * z[0], *(root * value for value in z[1:])]),
        "columns without their root": proved(root, z),
    }
    found = {
        name: {
            "elements": numbers(elements),
            "verdict": verdict(form.apply([value % P for value in elements], first=True)),
        }
        for name, elements in cases.items()
    }
    return {
        "schema": schema.to_dict(),
        "weight": BY_REGION.to_dict(),
        "challenge": challenge_dict(challenge),
        "honest": numbers(proved(root, [root * value for value in z])),
        "cases": found,
    }


def totals_case(place: int, people: list[dict[str, Any]], providers: int, refused: int) -> dict[str, Any]:
    """Several reports of a case's study, one of them altered, from payloads to what is published."""
    name, schema, row_norm, _, _, weight = CASES[place]
    layout, source = MomentsLayout.of(schema, row_norm, weight), Recorded(f"totals {name}")
    key, reports, shares = challenge_key(STUDY, CONTRIBUTIONS[:providers]), [], []
    for number, answers in enumerate(people):
        elements = build_report(layout, answers, source)
        if number == refused:
            elements[layout.products.start] = (elements[layout.products.start] + 1) % P
        sent = share_payloads(*split(elements, providers, source))
        submission = hashlib.sha256(f"{name} {number}".encode()).digest()[:16]
        form = forms(layout, derive_challenge(key, STUDY, bucket_of(submission), layout))
        own = [read_share(payload, k, providers, layout.elements) for k, payload in enumerate(sent, 1)]
        said = [form.apply(share, first=k == 0) for k, share in enumerate(own)]
        found = verdict([sum(values) % P for values in zip(*said, strict=True)])
        shares.append(own if found is None else None)
        reports.append(
            {
                "submission_id": submission.hex(),
                "payloads": [payload.hex() for payload in sent],
                "verdict": found,
            }
        )
    accepted = [own for own in shares if own is not None]
    noises = layout.noises(2.5, 1)
    totals, drawn, deliveries = [], [], []
    for k in range(providers):
        own = [share[k][: layout.products.stop] for share in accepted]
        totals.append(add_up(layout, own, len(accepted), first=k == 0))
        gaussian = RoundedGaussian(source)
        drawn.append([gaussian.sample(noise.sigma) for noise in noises])
        each = zip(totals[-1], drawn[-1], noises, strict=True)
        deliveries.append([((total << noise.shift) + extra) % P for total, extra, noise in each])
    published = decode(deliveries)
    return {
        "study": name,
        "challenge_key": key.hex(),
        "reports": reports,
        "totals": [numbers(values) for values in totals],
        "sigma": 2.5,
        "honest": 1,
        "noise": [{"sigma": str(noise.sigma), "shift": noise.shift} for noise in noises],
        "drawn": [numbers(values) for values in drawn],
        "deliveries": [pack(values).hex() for values in deliveries],
        "published": numbers(published),
        "exact": numbers(decode(totals)),
    }


def totals() -> dict[str, Any]:
    """From many reports to what is published, and deliveries that are refused."""
    people = [
        {"hours": 0.5 * (5 * i % 13), "smoker": i % 3 == 0, "region": ("north", "south", "west")[i % 3]}
        for i in range(5)
    ]
    first = totals_case(1, people, 2, 3)
    good = bytes.fromhex(first["deliveries"][0])
    return {
        "what": "From the reports of several people to published totals, with noise as it was drawn and without blinding.",
        "source": "tests/vectors/make_moments_vectors.py",
        "study_id": STUDY.hex(),
        "cases": [first, totals_case(3, people, 3, 0), totals_case(7, people, 2, 4)],
        "deliveries_refused": {
            "a byte short": good[:-1].hex(),
            "an element short": good[:-8].hex(),
            "an element long": (good + bytes(8)).hex(),
            "an element that is P": (P.to_bytes(8, "little") + good[8:]).hex(),
            "nothing": "",
        },
    }


def documents() -> dict[str, dict[str, Any]]:
    """File names and what is in them."""
    seed = hashlib.sha256(b"expansion").digest()
    reports = {
        "what": "Reports of the moments suite from answers to the verdict of the right providers.",
        "source": "tests/vectors/make_moments_vectors.py",
        "p": str(P),
        "study_id": STUDY.hex(),
        "expansion": {"seed": seed.hex(), "elements": numbers(expand_elements(seed, 8))},
        "cases": [report_case(*case) for case in CASES],
    }
    return {
        "moments-reports.json": reports,
        "moments-refused.json": refused(),
        "moments-totals.json": totals(),
    }


def written(document: dict[str, Any]) -> str:
    """As it stands in the file."""
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    for file_name, content in documents().items():
        (FOLDER / file_name).write_text(written(content), encoding="utf-8")

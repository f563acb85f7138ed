"""The plain-Python row arithmetic beside numpy's: the same integers, the masked row to one grid step."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimask_core import submission
from trimask_core.errors import ParameterError, StudyError, VerificationError
from trimask_core.randomness import DeterministicRandom
from trimask_core.rows import normal, shares
from trimask_core.rows.grid import Grid
from trimask_core.rows.pure import row as pure
from trimask_core.rows.pure.frame import RowFrame
from trimask_core.rows.pure.normal import PureNormals, normals_from_words
from trimask_core.rows.rotation import HaarFrame
from trimask_core.signed_study import SignedStudy

VECTORS = Path(__file__).parents[1] / "vectors"
NORMALS: list[dict[str, Any]] = json.loads((VECTORS / "device-normal.json").read_text())["cases"]
ROWS: dict[str, Any] = json.loads((VECTORS / "device-row.json").read_text())
GRID = Grid(-26)


def _study(case: dict[str, Any]) -> Any:
    """What the row arithmetic asks of a study, from a vector."""
    row = [float.fromhex(value) for value in case["row"]]
    seed, sizes = bytes.fromhex(case["mask_seed"]), (case["attributes"], case["columns"])
    sigma = math.ldexp(case["sigma_steps"], case["grid_exponent"])
    norm = float.fromhex(case["schema_row_norm"])
    study = SimpleNamespace(
        schema=SimpleNamespace(row_norm=norm),
        encode=lambda _: list(row),
        protection=SimpleNamespace(row_norm=float.fromhex(case["row_norm"]), sigma=sigma),
        grid=Grid(case["grid_exponent"]),
        tau=float.fromhex(case["tau"]),
        columns=case["columns"],
        frame=HaarFrame(seed, *sizes),
        row_frame=RowFrame(seed, *sizes),
        share_steps=float.fromhex(case["share_steps"]),
        right=[None] * case["right"],
    )
    study.rows = study
    return study


@pytest.mark.parametrize("case", NORMALS, ids=lambda case: case["name"])
def test_known_normals(case: dict[str, Any]) -> None:
    words = [int(word, 16) for word in case["words"]]
    expected = [float.fromhex(value) for value in case["normals"]]
    assert normals_from_words(words) == expected
    assert normal.normals_from_words(np.array(words, dtype=np.uint64)).tolist() == expected


@settings(max_examples=300)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2))
def test_normals_are_numpys_to_the_bit(words: list[int]) -> None:
    assert normals_from_words(words) == normal.normals_from_words(np.array(words, dtype=np.uint64)).tolist()


def test_a_stream_of_normals_is_numpys_to_the_bit() -> None:
    pure_stream, stream = PureNormals(bytes(32), b"x"), normal.NormalStream(bytes(32), b"x")
    for count in (1, 2, 33, 10_000):
        assert pure_stream.standard_normal(count) == stream.standard_normal(count).tolist()
    assert "secret" in repr(pure_stream)


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 1), (1, 9), (7, 7), (5, 40), (64, 90), (65, 200), (130, 140)]
)
def test_the_frame_is_numpys(rows: int, columns: int) -> None:
    seed = bytes(range(32))
    mine, theirs = RowFrame(seed, rows, columns), HaarFrame(seed, rows, columns)
    rng = np.random.default_rng(rows + columns)
    short, long = rng.standard_normal(rows), rng.standard_normal(columns)
    # Orthogonal up to rounding: k reflections of relative error a few 1e-16 each.
    np.testing.assert_allclose(mine.apply(short.tolist()), theirs.apply(short[None])[0], atol=1e-13)
    np.testing.assert_allclose(mine.unapply(long.tolist()), theirs.unapply(long[None])[0], atol=1e-13)
    np.testing.assert_allclose(mine.unapply(mine.apply(short.tolist())), short, atol=1e-13)
    assert "secret" in repr(mine)


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (4, 3)])
def test_frames_that_cannot_be(rows: int, columns: int) -> None:
    with pytest.raises(ParameterError, match="rows"):
        RowFrame(bytes(32), rows, columns)


@pytest.mark.parametrize("columns", [1, 2, 7, 200])
def test_components_are_numpys_integers(columns: int) -> None:
    for number in range(5):
        seed = bytes([number] * 32)
        assert (
            pure.expand_component(seed, columns, 2.0**46 / 3)
            == shares.expand_component(seed, columns, 2.0**46 / 3).tolist()
        )


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 0.5 * GRID.step, 1.5 * GRID.step, -2.5 * GRID.step, 1 / 3, -1.0, 2.0**26.999]
)
def test_rounding_one_value_is_rounding_an_array(value: float) -> None:
    assert GRID.round_one(value) == GRID.round(np.array([value]))[0]
    assert GRID.truncate_one(value) == GRID.round_inward(np.array([value]))[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**27, -(2.0**27), 1e308, -1e308])
def test_values_off_the_grid_are_refused(value: float) -> None:
    for call in (GRID.round_one, GRID.truncate_one):
        with pytest.raises(VerificationError, match="grid"):
            call(value)


@pytest.mark.parametrize("case", ROWS["good"], ids=lambda case: case["name"])
def test_known_rows(case: dict[str, Any]) -> None:
    study = _study(case)
    for path in ("numpy", "pure"):
        source: Any = DeterministicRandom(case["label"])
        module: Any = submission if path == "numpy" else pure
        x1 = module.noisy_answers(study, {}, source)
        assert list(x1) == case["x1"]
        masked = module.mask_row(study, x1, source)
        assert max(abs(int(a) - b) for a, b in zip(masked, case["masked"], strict=True)) <= 1
        if path == "numpy":
            parts = shares.split_row(np.array(case["masked"]), case["right"], study.rows.share_steps, source)
            seeds, vector = parts.seeds, parts.vector.tolist()
        else:
            seeds, vector = pure.split_row(case["masked"], case["right"], study.rows.share_steps, source)
        assert [seed.hex() for seed in seeds] == case["seeds"]
        assert vector == case["vector"]


@pytest.mark.parametrize("case", ROWS["bad"], ids=lambda case: case["why"])
def test_payloads_that_are_refused(case: dict[str, Any]) -> None:
    study = _study(ROWS["good"][0])
    payload = bytes.fromhex(case["start"]) + bytes(case["zeros"]) + bytes.fromhex(case["end"])
    for module in (submission, pure):
        with pytest.raises(VerificationError):
            module.read_component(study, case["provider"], payload)


def test_both_ways_through_a_whole_submission(made_study: Any, answers: Any) -> None:
    """Opened by the providers' keys: seeds identical, the last vector and so the row to one grid step."""
    study, opened = made_study.study, {}
    for path in ("numpy", "pure"):
        sealed = submission.build_submission(study, answers, DeterministicRandom("row"), path)  # type: ignore[arg-type]
        opened[path] = [
            made_study.sealing[f"R{k}"].open(
                item, submission.component_info(study.id, k, sealed.submission_id)
            )
            for k, item in enumerate(sealed.sealed, 1)
        ]
    assert opened["numpy"][:-1] == opened["pure"][:-1]
    rows = []
    for path in ("numpy", "pure"):
        read = [submission.read_component(study, k, payload) for k, payload in enumerate(opened[path], 1)]
        again = [pure.read_component(study, k, payload) for k, payload in enumerate(opened[path], 1)]
        assert [part.tolist() for part in read] == again
        rows.append(shares.sum_components(read))
    assert np.abs(rows[0] - rows[1]).max() <= 1


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_random_rows_agree_to_one_step(made_study: Any, answers: Any, number: int) -> None:
    study, label = made_study.study, f"row {number}"
    x1 = pure.noisy_answers(study, answers, DeterministicRandom(label))
    assert x1 == submission.noisy_answers(study, answers, DeterministicRandom(label)).tolist()
    mine = pure.mask_row(study, x1, DeterministicRandom(label))
    theirs = submission.mask_row(study, np.array(x1), DeterministicRandom(label))
    assert np.abs(np.array(mine) - theirs).max() <= 1


def test_a_smaller_row_norm_clips_alike(make_study: Any, answers: Any) -> None:
    study = make_study(row_norm=1.5, sigma=0.0).study
    source = DeterministicRandom("clip")
    steps = pure.noisy_answers(study, answers, source)
    assert steps == submission.noisy_answers(study, answers, source).tolist()
    assert math.hypot(*steps) <= math.ldexp(1.5, -study.rows.grid_exponent)


def test_a_split_that_cannot_be() -> None:
    source = DeterministicRandom("split")
    with pytest.raises(ParameterError, match="right_providers"):
        pure.split_row([1, 2], 1, 2.0**46, source)
    with pytest.raises(ParameterError, match="scale_steps"):
        pure.split_row([1, 2], 2, 2.0**27, source)
    with pytest.raises(VerificationError, match="53 bits"):
        pure.split_row([2**60, 0], 2, 2.0**46, source)


def test_a_study_without_its_mask_seed(make_study: Any) -> None:
    study = make_study().study
    study = SignedStudy(study).without_seed().study
    with pytest.raises(StudyError, match="seed"):
        study.rows.row_frame  # noqa: B018


SCRIPT = """
import sys
for name in ("numpy", "grpc", "scipy", "pandas", "asyncio"):
    sys.modules[name] = None
from trimask_client import Client
from trimask_client.transport import default_transport
client = Client(sys.argv[1])
sealed = client.prepare({"age": 40, "bmi": 22.0, "smoker": "no", "region": "west"})
assert type(default_transport()).__name__ == "H2Transport"
sys.stdout.write(" ".join([sealed.submission_id.hex(), *(part.hex() for part in sealed.sealed)]))
"""


def test_a_device_without_numpy_and_grpcio(made_study: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(made_study.signed.to_json())
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    submission_id, *sealed = map(bytes.fromhex, run.stdout.split())
    study = made_study.study
    parts = [
        submission.read_component(
            study,
            k,
            made_study.sealing[f"R{k}"].open(item, submission.component_info(study.id, k, submission_id)),
        )
        for k, item in enumerate(sealed, 1)
    ]
    row = study.rows.grid.to_float(shares.sum_components(parts))
    answers = study.rows.frame.unapply(row[None])[0]
    expected = study.schema.encode({"age": 40, "bmi": 22.0, "smoker": "no", "region": "west"})
    # sigma is 0.25 here: a sum of p1 = 9 squared normals is beyond 9 + 60 with probability below 1e-10.
    assert np.sum((answers - expected) ** 2) < 69 * 0.25**2

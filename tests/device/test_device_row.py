"""A device's row arithmetic against numpy as an oracle, and a gateway's, which gives the same to the bit."""

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

from trimask_core.basics.errors import ParameterError, StudyError, VerificationError
from trimask_core.basics.randomness import DeterministicRandom, DiscreteGaussian, SystemRandom
from trimask_core.crypto.keys import component_info
from trimask_core.rows import arrays
from trimask_core.rows import payloads as device
from trimask_core.rows.arrays import HaarFrame, device_frame, read_component
from trimask_core.rows.gateway import Gateway
from trimask_core.rows.noise_columns import PureNormals, RowFrame, normals_from_words
from trimask_core.rows.study import Grid, frame_share
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import SealedSubmission, build_submission

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
        schema=SimpleNamespace(row_norm=norm, encode=lambda _: list(row)),
        weight=None,
        protection=SimpleNamespace(row_norm=float.fromhex(case["row_norm"]), sigma=sigma),
        grid=Grid(case["grid_exponent"]),
        tau=float.fromhex(case["tau"]),
        attributes=case["attributes"],
        columns=case["columns"],
        device_seed=seed,
        row_frame=RowFrame(seed, *sizes),
        share_steps=float.fromhex(case["share_steps"]),
        right=[None] * case["right"],
        tag_holders=(),
        longest_component=math.inf,
        grid_exponent=case["grid_exponent"],
        frame_share=frame_share(sigma, 2.0 ** case["grid_exponent"], float.fromhex(case["tau"])),
    )
    study.rows = study
    return study


def oracle_answers(study: Any, answers: Any, source: DeterministicRandom) -> Any:
    """x1 on the grid with its noise, by numpy."""
    row = np.array(study.schema.encode(answers))
    limit = study.protection.row_norm
    clipped = limit < study.schema.row_norm
    row *= min(1.0, limit / np.linalg.norm(row))
    grid = study.rows.grid
    steps = np.trunc(np.ldexp(row, -grid.exponent)).astype(np.int64) if clipped else grid.round(row)
    if study.protection.sigma:
        steps += DiscreteGaussian(grid.steps_up(study.protection.sigma), source).samples(row.size)
    return steps


def oracle_masked(study: Any, x1: Any, source: DeterministicRandom) -> Any:
    """x B_0 on the grid, by numpy's frame, which adds up in another order."""
    g = study.rows.tau * arrays.SecureNormals(source).standard_normal((1, study.rows.columns))
    taken = 1 - study.rows.frame_share
    shift = study.rows.grid.to_float(np.array(x1))[None] - taken * device_frame(study).unapply(g)
    return study.rows.grid.round((g + device_frame(study).apply(shift))[0])


@pytest.mark.parametrize("case", NORMALS, ids=lambda case: case["name"])
def test_known_normals(case: dict[str, Any]) -> None:
    words = [int(word, 16) for word in case["words"]]
    expected = [float.fromhex(value) for value in case["normals"]]
    assert normals_from_words(words) == expected
    assert arrays.normals_from_words(np.array(words, dtype=np.uint64)).tolist() == expected


@settings(max_examples=300)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=2))
def test_normals_are_numpys_to_the_bit(words: list[int]) -> None:
    assert normals_from_words(words) == arrays.normals_from_words(np.array(words, dtype=np.uint64)).tolist()


def test_a_stream_of_normals_is_numpys_to_the_bit() -> None:
    pure_stream, stream = PureNormals(bytes(32), b"x"), arrays.NormalStream(bytes(32), b"x")
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
            device.expand_component(seed, columns, 2.0**46 / 3)
            == arrays.expand_component(seed, columns, 2.0**46 / 3).tolist()
        )


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 0.5 * GRID.step, 1.5 * GRID.step, -2.5 * GRID.step, 1 / 3, -1.0, 2.0**26.999]
)
def test_rounding_one_value_is_rounding_an_array(value: float) -> None:
    assert GRID.round_one(value) == GRID.round(np.array([value]))[0]
    assert GRID.truncate_one(value) == np.trunc(value / GRID.step)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2.0**27, -(2.0**27), 1e308, -1e308])
def test_values_off_the_grid_are_refused(value: float) -> None:
    for call in (GRID.round_one, GRID.truncate_one):
        with pytest.raises(VerificationError, match="grid"):
            call(value)


@pytest.mark.parametrize("case", ROWS["good"], ids=lambda case: case["name"])
def test_known_rows(case: dict[str, Any]) -> None:
    study, source = _study(case), DeterministicRandom(case["label"])
    x1 = device.noisy_answers(study, {}, source)
    assert x1 == case["x1"]
    masked = device.mask_row(study, x1, source)
    assert masked == case["masked"]
    seeds, (*_, vector) = device.split_row(masked, case["right"], study.rows.share_steps, source)
    assert [seed.hex() for seed in seeds] == case["seeds"]
    assert vector == case["vector"]
    source = DeterministicRandom(case["label"])
    assert oracle_answers(study, {}, source).tolist() == case["x1"]
    assert np.abs(oracle_masked(study, x1, source) - case["masked"]).max() <= 1


@pytest.mark.parametrize("case", ROWS["bad"], ids=lambda case: case["why"])
def test_payloads_that_are_refused(case: dict[str, Any]) -> None:
    study = _study(ROWS["good"][0])
    payload = bytes.fromhex(case["start"]) + bytes(case["zeros"]) + bytes.fromhex(case["end"])
    with pytest.raises(VerificationError):
        read_component(study, case["provider"], payload)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_random_rows_are_the_oracle_s_to_one_step(made_study: Any, answers: Any, number: int) -> None:
    study, label = made_study.study, f"row {number}"
    x1 = device.noisy_answers(study, answers, DeterministicRandom(label))
    assert x1 == oracle_answers(study, answers, DeterministicRandom(label)).tolist()
    masked = device.mask_row(study, x1, DeterministicRandom(label))
    assert np.abs(np.array(masked) - oracle_masked(study, x1, DeterministicRandom(label))).max() <= 1


def test_a_smaller_row_norm_clips(make_study: Any, answers: Any) -> None:
    study = make_study(row_norm=1.5, sigma=0.0).study
    source = DeterministicRandom("clip")
    steps = device.noisy_answers(study, answers, source)
    # Clipping scales a row by a quotient that the two round differently in the last bit, which may cross a grid step.
    assert np.abs(np.array(steps) - oracle_answers(study, answers, source)).max() <= 1
    assert math.hypot(*steps) <= math.ldexp(1.5, -study.rows.grid_exponent)


# A gateway


def _opened(made: Any, submission: SealedSubmission) -> list[bytes]:
    return [
        made.sealing[f"R{k}"].open(item, component_info(made.study.id, k, submission.submission_id))
        for k, item in enumerate(submission.sealed, 1)
    ]


@pytest.mark.parametrize(
    "setting", [{}, {"sigma": 0.0, "right": 2}, {"row_norm": 1.5, "right": 5}, {"right": 4}]
)
def test_a_gateway_gives_what_devices_give_to_the_bit(
    make_study: Any, answers: Any, setting: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same source gives the same payloads and ids, person by person, in whatever batches they are made."""
    monkeypatch.setattr("trimask_core.rows.gateway._BATCH", 8)
    made = make_study(**setting)
    people = [answers | {"age": 20 + number} for number in range(21)]
    source = DeterministicRandom("gateway")
    alone = [build_submission(made.study, person, source) for person in people]
    together = Gateway(made.study).submissions(people, DeterministicRandom("gateway"))
    assert [one.submission_id for one in together] == [one.submission_id for one in alone]
    assert [one.withdrawal_key for one in together] == [one.withdrawal_key for one in alone]
    assert [_opened(made, one) for one in together] == [_opened(made, one) for one in alone]


@pytest.mark.parametrize("case", ROWS["good"], ids=lambda case: case["name"])
def test_a_gateway_knows_the_known_rows(case: dict[str, Any]) -> None:
    study: Any = _study(case)
    gateway = Gateway(study)
    drawn = gateway._draw({}, DeterministicRandom(case["label"]))
    (masked,) = gateway._masked([drawn])
    assert masked.tolist() == case["masked"]
    assert [seed.hex() for seed in drawn.seeds] == case["seeds"]
    vector = np.frombuffer(gateway._payloads(masked[None], [drawn])[0][-1][1:], dtype="<i8")
    assert vector.tolist() == case["vector"]


def test_many_columns_and_panels_to_the_bit() -> None:
    """More reflections than a panel has, and rows long enough for numpy to add up in its own order if it were let."""
    rows, columns = 70, 1500
    seed, base = bytes(range(32)), ROWS["good"][0]
    study = _study(base)
    study.rows.row_frame, study.rows.columns, study.attributes = RowFrame(seed, rows, columns), columns, rows
    study.schema.encode = lambda _: [math.cos(number) for number in range(rows)]
    study.schema.row_norm = study.protection.row_norm = math.sqrt(rows)
    gateway = Gateway(study)
    drawn = [gateway._draw({}, DeterministicRandom(f"wide {number}")) for number in range(3)]
    masked = gateway._masked(drawn).tolist()
    for number in range(3):
        source = DeterministicRandom(f"wide {number}")
        assert masked[number] == device.mask_row(study, device.noisy_answers(study, {}, source), source)


def test_a_gateway_seals_to_newer_keys(make_study: Any, answers: Any) -> None:
    made, other = make_study(), make_study()
    newer = {2: other.sealing["R2"].public}
    (one,) = Gateway(made.study).submissions([answers], SystemRandom(), newer)
    by_device = build_submission(made.study, answers, SystemRandom(), newer)
    assert one.key_ids == by_device.key_ids
    other.sealing["R2"].open(one.sealed[1], component_info(made.study.id, 2, one.submission_id))


def test_a_split_that_cannot_be() -> None:
    source = DeterministicRandom("split")
    with pytest.raises(ParameterError, match="right_providers"):
        device.split_row([1, 2], 1, 2.0**46, source)
    with pytest.raises(ParameterError, match="scale_steps"):
        device.split_row([1, 2], 2, 2.0**27, source)
    with pytest.raises(VerificationError, match="53 bits"):
        device.split_row([2**60, 0], 2, 2.0**46, source)


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
client = Client(sys.argv[1])
sealed = client.prepare({"age": 40, "bmi": 22.0, "smoker": "no", "region": "west"})
sys.stdout.write(" ".join([sealed.submission_id.hex(), *(part.hex() for part in sealed.sealed)]))
"""


LOADED = """
import sys
from trimask_client import Client, Unreachable
client = Client(sys.argv[1], attempts=1, timeout_seconds=0.2)
try:
    client.submit({"age": 40, "bmi": 22.0, "smoker": "no", "region": "west"})
except Unreachable:
    pass
print(sorted({"numpy", "grpc", "h2"} & set(sys.modules)))
"""


def test_a_device_loads_neither_numpy_nor_grpcio_where_they_are_installed(
    made_study: Any, tmp_path: Path
) -> None:
    path = tmp_path / "study.json"
    path.write_text(made_study.signed.to_json())
    run = subprocess.run(
        [sys.executable, "-c", LOADED, str(path)], capture_output=True, text=True, check=False
    )
    assert run.stdout == "['h2']\n", run.stderr


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
        read_component(
            study,
            k,
            made_study.sealing[f"R{k}"].open(item, component_info(study.id, k, submission_id)),
        )
        for k, item in enumerate(sealed, 1)
    ]
    row = study.rows.grid.to_float(sum(parts))
    answers = device_frame(study).unapply(row[None])[0]
    expected = study.schema.encode({"age": 40, "bmi": 22.0, "smoker": "no", "region": "west"})
    # sigma is 0.25 here: a sum of p1 = 9 squared normals is beyond 9 + 60 with probability below 1e-10.
    assert np.sum((answers - expected) ** 2) < 69 * 0.25**2

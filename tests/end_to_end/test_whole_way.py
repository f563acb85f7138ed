"""From answers to a release: what is published is what was answered, and nothing else is left anywhere."""

from __future__ import annotations

import base64
import contextlib
import sqlite3
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trimask_client import Client, SealedSubmission
from trimask_core.study.definition import Study
from trimask_lab import Lab, exact_gram, some_people, sqlite_only
from trimask_proto.v1 import node_pb2, node_pb2_grpc

EIGHT = """
title = "Eight columns"
purpose = "The exact release, at the size the product promises"
contact = "nobody@example.org"
[privacy]
exact = true
[collection]
block_rows = 128
release_rows = 2048
""" + "".join(
    f'[[attributes]]\nname = "v{i}"\nkind = "continuous"\nminimum = {-(10**i % 7) - 1}\nmaximum = {10**i % 7 + 1}\n'
    for i in range(7)
)


@pytest.mark.parametrize("rows", [256, pytest.param(2048, marks=pytest.mark.slow)])
def test_exact_release_is_the_gram_matrix_and_nothing_remains(process_lab: Lab, rows: int) -> None:
    lab = process_lab
    signed = lab.open_study(EIGHT, release_rows=rows)
    study = signed.study
    assert study.attributes == 8
    rng = np.random.default_rng(1)
    people = [{a.name: float(rng.uniform(*a.bounds)) for a in study.schema.attributes} for _ in range(rows)]
    sealed: list[SealedSubmission] = []

    def submit(some: list[dict[str, float]]) -> None:
        with Client(signed) as client:
            for answers in some:
                submission = client.prepare(answers)
                client.send(submission)
                sealed.append(submission)

    with ThreadPoolExecutor(8) as phones:
        list(phones.map(submit, (people[start::8] for start in range(8))))
    status = lab.close(study)
    assert status.published_rows == rows
    assert status.failed_attempts == 0
    (dataset,) = lab.datasets(study)
    exact = exact_gram(study, people)
    found = dataset.gram(units="scaled").to_numpy()
    assert np.abs(found - exact).max() <= 1e-7 * np.abs(exact).max()

    some = rows // 50  # every file is searched for everything about so many of them
    traces = needles(study, people[:some] + people[-some:])
    traces += [
        body[i : i + 24] for item in sealed[::40] for body in item.sealed for i in (0, 40, len(body) - 24)
    ]
    leaks = [path for path in lab.folder.rglob("*") if path.is_file() and contains(path, traces)]
    assert leaks == []


def needles(study: Study, people: list[dict[str, Any]]) -> list[bytes]:
    """Every form in which a row could have been kept: answers as text, doubles and grid steps, scaled rows."""
    found = []
    for answers in people:
        for value in answers.values():
            found += [repr(value).encode(), struct.pack("<d", value), struct.pack(">d", value)]
        row = np.array(study.schema.encode(answers))
        steps = study.rows.grid.round(row)
        for value in row[1:]:
            found += [struct.pack("<d", value), repr(float(value)).encode()]
        # Steps by pairs: one alone is four bytes and as many zeros, which a page of a store has by chance.
        found += [steps[i : i + 2].astype("<i8").tobytes() for i in range(1, len(steps) - 1)]
        found.append(base64.b64encode(row[1:4].tobytes()))
    return found


def contains(path: Path, traces: list[bytes]) -> bool:
    try:
        data = path.read_bytes()
    except (
        FileNotFoundError
    ):  # renamed since the folder was listed: a file that is written anew is written beside itself
        return False
    return any(trace in data for trace in traces)


def test_the_search_for_traces_finds_what_is_there(tmp_path: Path, process_lab: Lab) -> None:
    study = process_lab.new_study(EIGHT).study
    answers = {a.name: 0.123456789 * (i + 1) % 1 for i, a in enumerate(study.schema.attributes)}
    for index, form in enumerate(needles(study, [answers])):
        (tmp_path / "file").write_bytes(b"some" + form + b"thing")
        assert contains(tmp_path / "file", needles(study, [answers])), index


@sqlite_only
def test_rows_are_on_disk_encrypted_until_publication(lab: Lab) -> None:
    """The other half of the test above: what is stored of a row is there until its block is pooled."""
    signed = lab.open_study()
    people = some_people(48, seed=3)
    with Client(signed) as client:
        submissions = [client.prepare(answers) for answers in people]
        for submission in submissions:
            client.send(submission)
    data = lab.folder / "R1" / "data"
    with contextlib.closing(sqlite3.connect(data / "right.sqlite3")) as store:
        stored = store.execute(
            "SELECT payload FROM submissions WHERE submission_id = ?", (submissions[-1].submission_id,)
        ).fetchone()[0]
    assert any(contains(path, [stored[-24:]]) for path in data.iterdir())
    assert not any(contains(path, [submissions[-1].sealed[0][:24]]) for path in data.iterdir())
    lab.close(signed.study)
    assert not any(contains(path, [stored[-24:]]) for path in data.iterdir())


def test_remainders_join_the_last_block_and_the_last_release(lab: Lab) -> None:
    """133 rows, blocks of 24, releases of 48: blocks 24 x 4 + 37, releases 48 and 85, each row in one of them."""
    signed = lab.open_study()
    study = signed.study
    people = some_people(133, seed=2)
    with Client(signed) as client:
        for answers in people:
            client.submit(answers)
    status = lab.close(study)
    datasets = lab.datasets(study)
    assert [d.rows for d in datasets] == [48, 85]
    assert status.published_rows == 133
    total = sum(d.gram(units="scaled").to_numpy() for d in datasets)
    exact = exact_gram(study, people)
    assert np.abs(total - exact).max() <= 1e-7 * np.abs(exact).max()
    assert datasets[1].manifest.previous is not None


def test_too_few_rows_publish_nothing_and_say_what_would_have_worked(lab: Lab) -> None:
    signed = lab.open_study()
    with Client(signed) as client:
        for answers in some_people(30, seed=3):
            client.submit(answers)
    status = lab.close(signed.study)
    assert lab.datasets(signed.study) == []
    assert "release_rows of at most 30" in status.note
    assert status.pending_rows == 0


def test_fewer_rows_than_any_study_could_publish(lab: Lab) -> None:
    signed = lab.open_study()
    with Client(signed) as client:
        client.submit({"x": 1.0, "y": 2.0})
    assert "can publish fewer than 4 rows" in lab.close(signed.study).note


def test_noise_is_in_the_release_and_the_guarantee_in_the_manifest(lab: Lab) -> None:
    """The corrected Gram matrix is within 6 standard deviations of X^T X: 9 entries, failure below 2e-8."""
    signed = lab.open_study(exact=False, epsilon=8.0, delta=1e-5, release_rows=96)
    study = signed.study
    people = some_people(96, seed=4)
    with Client(signed) as client:
        for answers in people:
            client.submit(answers)
    lab.close(study)
    (dataset,) = lab.datasets(study)
    sigma, n = study.protection.sigma, 96
    assert dataset.sigma == sigma > 0.05
    assert dataset.guarantee.epsilon == 8.0
    exact = exact_gram(study, people)
    difference = dataset.gram(units="scaled").to_numpy() - exact
    assert np.abs(difference).max() > 1e-3  # there is noise
    diagonal = np.diag(exact)
    variance = sigma**2 * (diagonal[:, None] + diagonal[None, :]) * (1 + np.eye(3)) + sigma**4 * n * (
        1 + np.eye(3)
    )
    assert (np.abs(difference) < 6 * np.sqrt(variance)).all()


@pytest.mark.parametrize(("right", "left"), [(2, 1), (5, 3)])
def test_other_numbers_of_providers(
    tmp_path: Path, request: pytest.FixtureRequest, right: int, left: int
) -> None:
    lab = Lab(tmp_path, right, left)
    with lab.in_thread(request):
        signed = lab.open_study(release_rows=24)
        people = some_people(24, seed=5)
        with Client(signed) as client:
            for answers in people:
                client.submit(answers)
        lab.close(signed.study)
        (dataset,) = lab.datasets(signed.study)
    exact = exact_gram(signed.study, people)
    assert np.abs(dataset.gram(units="scaled").to_numpy() - exact).max() <= 1e-7 * np.abs(exact).max()


@sqlite_only
def test_no_provider_keeps_the_seed_of_the_device_mask(lab: Lab) -> None:
    """Right providers are sent it with each check of rows; no provider keeps it on disk, and the manifest has it not."""
    signed = lab.open_study()
    seed = signed.study.rows.mask_seed
    assert lab.cluster.nodes["collector"].context.studies.get(signed.study.id).rows.mask_seed == seed
    for name in ("R1", "R2", "R3", "L1", "L2"):
        assert lab.cluster.nodes[name].context.studies.get(signed.study.id).rows.mask_seed == b""
        held = [path.read_bytes() for path in (lab.folder / name / "data").iterdir()]
        assert not any(
            seed in data or base64.b64encode(seed) in data or seed.hex().encode() in data for data in held
        )
    held = [path.read_bytes() for path in (lab.folder / "collector" / "data").glob("*.sqlite3*")]
    assert any(base64.b64encode(seed) in data for data in held)  # the search would have found it


def test_a_provider_that_is_sent_the_seed_all_the_same_forgets_it(lab: Lab) -> None:
    signed = lab.new_study()
    request = node_pb2.RegisterStudyRequest(signed_study=signed.to_json().encode())
    with lab.channel_as("collector", to="L1") as channel:
        node_pb2_grpc.NodeServiceStub(channel).RegisterStudy(request)
    assert signed.study.rows.mask_seed != b""
    lab.on_loop(lab.nodes("L1")[0].context.studies.refresh())  # another worker may have been asked
    assert lab.nodes("L1")[0].context.studies.get(signed.study.id).rows.mask_seed == b""

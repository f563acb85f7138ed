"""A study of the moments suite over real gRPC: what is published is the sum of what was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_client.grpc_channel import plain_errors
from trimask_core.study.definition import Study
from trimask_lab import Lab, sqlite_only
from trimask_moments import exact_totals, moments_people, open_moments, submit_all
from trimask_proto.v1 import moments_pb2, moments_pb2_grpc
from trimask_rogue import back_up, restore


@pytest.fixture(scope="module", params=[2, 3])
def moments_lab(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A cluster of two or three right providers and a collector, on one thread."""
    lab = Lab(tmp_path_factory.mktemp("moments"), right=request.param, left=0)
    with lab.in_thread(request):
        yield lab


def published(lab: Lab, study: Study) -> list[dict[str, Any]]:
    """The files of a study's releases, as the collector has them."""
    folder = lab.folder / "collector" / "data" / "datasets"
    found = sorted(folder.glob(f"{study.id.hex()[:12]}-*/moments.json"))
    return [json.loads(path.read_text()) for path in found]


def test_an_exact_release_is_the_sum_of_the_encoded_rows(moments_lab: Lab) -> None:
    signed = open_moments(moments_lab, release_rows=30)
    people = moments_people(37)
    submit_all(signed, people)
    status = moments_lab.close(signed.study)
    assert status.published_rows == 37
    (release,) = published(moments_lab, signed.study)
    first, products = exact_totals(signed.study, people)
    assert release["accepted"] == 37
    assert release["first"] == first
    assert release["products"] == products
    assert len(release["deliveries"]) == moments_lab.right


def test_everybody_is_published_together_when_the_study_closes(moments_lab: Lab) -> None:
    """However many more than release_rows they are: each release would have the whole noise."""
    signed = open_moments(moments_lab, release_rows=10)
    people = moments_people(35)
    submit_all(signed, people)
    moments_lab.wait(signed.study, lambda now: now.pooled_rows >= 30)
    assert published(moments_lab, signed.study) == []
    moments_lab.close(signed.study)
    (release,) = published(moments_lab, signed.study)
    first, products = exact_totals(signed.study, people)
    assert (release["accepted"], release["first"], release["products"]) == (35, first, products)


def test_a_study_that_asks_for_several_releases_has_as_many_as_it_has_reports_for(moments_lab: Lab) -> None:
    signed = open_moments(moments_lab, release_rows=10, several=True)
    people = moments_people(35)
    submit_all(signed, people)
    moments_lab.close(signed.study)
    releases = published(moments_lab, signed.study)
    assert [release["accepted"] for release in releases] == [10, 10, 15]
    first, products = exact_totals(signed.study, people)
    for name, exact in (("first", first), ("products", products)):
        columns = zip(*(release[name] for release in releases), strict=True)
        assert [sum(column) for column in columns] == exact


@sqlite_only
def test_a_study_whose_reports_are_all_lost_closes_and_says_so(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """R2 is restored to before the only batch, which R1 has added up: nothing can be released, and the study ends."""
    lab = Lab(tmp_path / "lab", right=2, left=0)
    with lab.in_thread(request):
        signed = open_moments(lab, release_rows=10)
        back_up(lab, "R2", tmp_path / "backup")
        submit_all(signed, moments_people(10))
        lab.wait(signed.study, lambda status: status.pooled_rows == 10)
        restore(lab, "R2", tmp_path / "backup")
        status = lab.close(signed.study)
        assert published(lab, signed.study) == []
        assert "nothing was published" in status.note


def test_without_noise_fewer_people_than_the_study_says_are_never_opened(moments_lab: Lab) -> None:
    """ "Without noise the number of people is all that hides one of them": the collector finds none to publish, and a
    changed one that asks for a batch of few is refused by every right provider."""
    signed = open_moments(moments_lab, release_rows=30)
    submit_all(signed, moments_people(12))
    status = moments_lab.close(signed.study)
    assert (status.published_rows, published(moments_lab, signed.study)) == (0, [])
    assert "30 people or more" in status.note
    (batch,) = moments_lab.query(
        "collector", "SELECT block_id FROM blocks WHERE study_id = ?", (signed.study.id,)
    )
    asked = moments_pb2.AskedTotals(study_id=signed.study.id, release_number=1, batch_ids=bytes(batch[0]))
    for k in range(1, moments_lab.right + 1):
        with moments_lab.channel_as("collector", to=f"R{k}") as channel, plain_errors("a right provider"):
            stub = moments_pb2_grpc.MomentsServiceStub(channel)
            with pytest.raises(grpc.RpcError, match="30 people or more"):
                stub.CommitTotals(moments_pb2.CommitTotalsRequest(totals=asked))

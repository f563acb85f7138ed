"""A study of the moments suite over real gRPC: what is published is the sum of what was answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from trimask_core.study import Study
from trimask_lab import Lab
from trimask_moments import exact_totals, moments_people, open_moments, submit_all


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

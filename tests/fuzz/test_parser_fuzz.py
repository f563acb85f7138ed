"""Every parser of what somebody else wrote: only the errors it promises, whatever it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trimask_fuzz.__main__ import NAMES
from trimask_fuzz.mutations import mutated, mutated_json
from trimask_fuzz.targets import TARGETS

_JSON = ["signed_study", "manifest", "receipt", "moments_study", "moments_question", "moments_totals"]
_QUIET = settings(max_examples=60, suppress_health_check=list(HealthCheck))


def test_every_target_is_run_by_make_fuzz() -> None:
    assert set(NAMES) == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_taken(name: str) -> None:
    """A fuzzer that begins from refused documents stays at the door."""
    target = TARGETS[name]
    inner = target.run.__wrapped__  # type: ignore[attr-defined]
    taken, refused = 0, []
    for seed in target.seeds():
        try:
            inner(seed)
            taken += 1
        except Exception as error:  # noqa: BLE001 - unsigned documents are refused, but only at their signature
            refused.append(str(error))
    assert all(
        any(word in text for word in ("does not verify", "does not open", "53 bits")) for text in refused
    ), refused
    assert taken or name in ("manifest", "receipt", "sealed")


@pytest.mark.parametrize("name", TARGETS)
def test_mutated_bytes(name: str) -> None:
    target = TARGETS[name]

    @_QUIET
    @given(mutated(target.seeds(), target.words))
    def check(data: bytes) -> None:
        target.run(data)

    check()


@pytest.mark.parametrize("name", _JSON)
def test_mutated_values(name: str) -> None:
    target = TARGETS[name]

    @_QUIET
    @given(mutated_json(target.seeds()))
    def check(data: bytes) -> None:
        target.run(data)

    check()


@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str) -> None:
    @_QUIET
    @given(st.one_of(st.binary(), st.text().map(str.encode), st.sampled_from(TARGETS[name].words or (b"",))))
    def check(data: bytes) -> None:
        TARGETS[name].run(data)

    check()


@pytest.mark.slow
def test_coverage_guided_for_a_moment() -> None:
    """The same targets under libFuzzer, as `make fuzz` runs them for longer."""
    pytest.importorskip("atheris")
    here = Path(__file__).parents[1]
    path = os.pathsep.join([*(str(here / folder) for folder in ("fuzz", "simulation", "faults")), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "trimask_fuzz", "--target", "link", "--runs", "3000", "--seconds", "10"],
        env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "Done " in done.stderr

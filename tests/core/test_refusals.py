"""The catalogue of refusals: text on the wire, statuses, and reasons of a later version."""

from __future__ import annotations

import json
import pickle

import grpc
import pytest

from trimask_core.basics.errors import Refused
from trimask_core.basics.refusals import (
    Alarm,
    Reason,
    Retry,
    Status,
    Unlisted,
    attempt_counter,
    read_reason,
)


def test_statuses_are_those_of_grpc() -> None:
    of_grpc = {code.name: code.value[0] for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
    assert {status.name: int(status) for status in Status} == of_grpc


def test_a_member_is_its_text() -> None:
    for reason in Reason:
        assert reason.name == reason.value.upper()
        assert f"{reason}" == str(reason) == reason.value
        assert {reason: 1}[str(reason)] == 1
        assert json.loads(json.dumps({"reason": reason})) == {"reason": reason.value}
        assert pickle.loads(pickle.dumps(reason)) is reason  # noqa: S301 - our own bytes


def test_status_and_retry_agree() -> None:
    """An older version, which has only the status, must not hold final what this one asks again, nor send at once again
    what this one knows to stand.
    """
    soon = (Status.UNAVAILABLE, Status.RESOURCE_EXHAUSTED)
    assert [reason for reason in Reason if not reason.meaning.endswith(".")] == []
    assert [reason for reason in Reason if reason.status.retry is Retry.NEVER and not reason.final] == []
    assert [reason for reason in Reason if reason.status is Status.UNAVAILABLE and reason.final] == []
    assert [reason for reason in Reason if reason.retry is Retry.SOON and reason.status not in soon] == []


def test_names_are_one_namespace() -> None:
    """Counts of refusals, alarms and given-up tries stand beside each other, and a status's name may be a reason."""
    texts = [*Reason, *Alarm, *(status.name.lower() for status in Status)]
    assert len(set(texts)) == len(texts)
    assert not {attempt_counter(reason) for reason in Reason} & set(texts)


@pytest.mark.parametrize("text", ["study_closed", b"study_closed"])
def test_a_listed_reason_is_read_whatever_the_status(text: str | bytes) -> None:
    assert read_reason(text, "UNKNOWN") is Reason.STUDY_CLOSED


@pytest.mark.parametrize(
    ("status", "retry"),
    [
        ("INVALID_ARGUMENT", Retry.NEVER), ("ALREADY_EXISTS", Retry.NEVER), ("OUT_OF_RANGE", Retry.NEVER),
        ("UNAVAILABLE", Retry.SOON), ("FAILED_PRECONDITION", Retry.LATER), ("PERMISSION_DENIED", Retry.LATER),
        ("INTERNAL", Retry.LATER), ("RESOURCE_EXHAUSTED", Retry.LATER), ("NO_SUCH_STATUS", Retry.LATER),
        ("OK", Retry.LATER),
    ],
)  # fmt: skip
def test_a_reason_of_a_later_version(status: str, retry: Retry) -> None:
    reason = read_reason("quite_new", status)
    assert isinstance(reason, Unlisted)
    assert (reason, reason.retry, reason.final) == ("quite_new", retry, retry is Retry.NEVER)
    assert reason.told is None
    error = Refused(reason, "no", retry_after_ms=5)
    assert (error.reason, str(error), error.retry_after_ms) == (reason, "no", 5)
    # Passed on, it keeps its status; what is no status has become UNKNOWN.
    assert reason.status.name == (status if status in Status.__members__ else "UNKNOWN")


@pytest.mark.parametrize("text", [None, "", b"", b"\xff", "Two words", "x" * 61, "a\nb", 'a"b'])
def test_what_is_no_word_is_not_kept(text: str | bytes | None) -> None:
    """It would go into logs and the labels of metrics."""
    assert read_reason(text, "PERMISSION_DENIED") == "permission_denied"

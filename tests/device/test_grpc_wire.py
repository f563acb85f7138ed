"""Framing, timeouts, status and percent-encoding as the protocol's description has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimask_client.h2_connection import (
    STATUS_NAMES,
    CallFailed,
    encode_timeout,
    frame_message,
    message_length,
    percent_decode,
    read_answer,
    reset_status,
)

OK = {b":status": b"200"}


def test_status_names_are_grpcs_own() -> None:
    import grpc

    assert {code.value[0]: code.name for code in grpc.StatusCode} == dict(enumerate(STATUS_NAMES))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00001, "1m"),
        (0.25, "250m"),
        (15.0, "15000m"),
        (99_999.999, "99999999m"),
        (1e5, "100000S"),
        (1e12, "99999999S"),
    ],
)
def test_timeouts(seconds: float, text: str) -> None:
    assert encode_timeout(seconds) == text


@pytest.mark.parametrize(
    ("encoded", "text"),
    [
        (b"", ""),
        (b"plain", "plain"),
        (b"100%25", "100%"),
        (b"tr%C3%A8s", "très"),
        (b"%e2%82%ac", "€"),
        (b"100%", "100%"),
        (b"%zz%4", "%zz%4"),
        (b"%FF", "�"),
    ],
)
def test_percent_decoding(encoded: bytes, text: str) -> None:
    assert percent_decode(encoded) == text


@given(st.text(max_size=40))
def test_percent_decoding_undoes_encoding(text: str) -> None:
    encoded = b"".join(
        bytes([byte]) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte for byte in text.encode()
    )
    assert percent_decode(encoded) == text


@given(st.binary(max_size=300))
def test_frames(message: bytes) -> None:
    framed = frame_message(message)
    assert message_length(framed) == len(message)
    assert message_length(framed[:4]) is None
    assert read_answer(OK, framed, {b"grpc-status": b"0"}) == message


@pytest.mark.parametrize(
    ("headers", "trailers", "status", "reason"),
    [
        (OK, {b"grpc-status": b"5"}, "NOT_FOUND", None),
        (
            {**OK, b"grpc-status": b"9", b"trimask-reason": b"study_closed"},
            {},
            "FAILED_PRECONDITION",
            "study_closed",
        ),
        (OK, {b"grpc-status": b"99"}, "UNKNOWN", None),
        (OK, {b"grpc-status": b"-1"}, "UNKNOWN", None),
        (OK, {}, "UNKNOWN", None),
        ({b":status": b"502"}, {}, "UNAVAILABLE", None),
        ({b":status": b"418"}, {}, "UNKNOWN", None),
        ({}, {}, "UNKNOWN", None),
    ],
)
def test_answers_that_are_no_message(
    headers: dict[bytes, bytes], trailers: dict[bytes, bytes], status: str, reason: str | None
) -> None:
    with pytest.raises(CallFailed) as caught:
        read_answer(headers, b"", trailers)
    assert (caught.value.status, caught.value.reason, caught.value.answered) == (status, reason, True)


def test_reset_codes() -> None:
    assert [reset_status(code) for code in (0, 2, 7, 8, 11, 12, 99)] == [
        "INTERNAL",
        "INTERNAL",
        "UNAVAILABLE",
        "CANCELLED",
        "RESOURCE_EXHAUSTED",
        "PERMISSION_DENIED",
        "INTERNAL",
    ]

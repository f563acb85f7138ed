"""Providers that misbehave: real TLS servers that answer with something else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from trimask_client import Client, Unreachable
from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.crypto.keys import SigningKey
from trimask_core.study.party import read_secret
from trimask_core.submit.submission import receipt_message
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse
from trimask_server.local.keys import issue_certificate, load_authority, make_authority

Answer = Callable[[bytes, grpc.ServicerContext], bytes]
Make = Callable[..., Any]
NAME = "r1.trimask.local"


@contextmanager
def provider(answer: Answer, certificate: Any) -> Iterator[str]:
    """A server for one method with one certificate; its address."""

    class Submissions(grpc.GenericRpcHandler):
        def service(self, _details: grpc.HandlerCallDetails) -> Any:
            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(ThreadPoolExecutor(2), handlers=[Submissions()])
    credentials = grpc.ssl_server_credentials([(certificate.private_key, certificate.certificate)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


@pytest.fixture
def send(make_study: Make, keys_folder: Path, answers: Mapping[str, object]) -> Callable[..., Any]:
    """Submits to a study whose R1 (and R2, if given) is at the address; one attempt unless told otherwise.

    Where R2 is not given nobody is: the port of its card is a free one that another test's node may have taken since."""
    cards = make_study(right=2, left=1, keys=keys_folder).study.parties

    def run(address: str, tls_name: str = NAME, second: str = "", **settings: Any) -> Any:
        parties = {
            "R1": replace(cards["R1"], address=address, tls_name=tls_name),
            "R2": replace(cards["R2"], address=second or "127.0.0.1:1"),
        }
        made = make_study(right=2, left=1, keys=keys_folder, parties=parties)
        with Client(made.signed, **{"attempts": 1, "timeout_seconds": 5.0, **settings}) as client:
            return client.submit(answers)

    return run


@pytest.fixture
def certificate(keys_folder: Path) -> Any:
    return issue_certificate(load_authority(keys_folder / "authority"), NAME)


def test_garbage_instead_of_a_receipt(send: Callable[..., Any], certificate: Any) -> None:
    garbage = provider(lambda _request, _context: b"\xff\xff\xff", certificate)
    with garbage as address, pytest.raises(VerificationError, match="R1 answered with something that is not"):
        send(address)


def signing(key: SigningKey, time_ms: int = 5) -> Answer:
    """What an honest provider answers, if the key is its own."""

    def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked = SubmitRequest.FromString(request)
        message = receipt_message(asked.study_id, asked.submission_id, asked.sealed_component, time_ms)
        return SubmitResponse(
            receive_time_ms=time_ms, signature=key.sign("receipt", message)
        ).SerializeToString()

    return answer


def test_a_receipt_its_provider_did_not_sign(
    send: Callable[..., Any], keys_folder: Path, certificate: Any
) -> None:
    """R2 is honest; R1 answers with nothing, an impossible time, or somebody else's signature."""
    own, other = (SigningKey(read_secret(keys_folder / role / "identity.key")) for role in ("R1", "R2"))
    honest = issue_certificate(load_authority(keys_folder / "authority"), "r2.trimask.local")
    with provider(signing(other), honest) as second:
        bad: list[Answer] = [
            lambda _request, _context: b"",
            lambda _request, _context: SubmitResponse(
                receive_time_ms=-5, signature=bytes(64)
            ).SerializeToString(),
            signing(other),
        ]
        for answer in bad:
            with (
                provider(answer, certificate) as address,
                pytest.raises(VerificationError, match="receipt of R1"),
            ):
                send(address, second=second)
        with provider(signing(own), certificate) as address:
            assert [item.role for item in send(address, second=second).providers] == ["R1", "R2"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, Unreachable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Unreachable),
        (grpc.StatusCode.ABORTED, Unreachable),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Refused),
        (grpc.StatusCode.UNIMPLEMENTED, Refused),
        (grpc.StatusCode.PERMISSION_DENIED, Refused),
    ],
)
def test_statuses_without_a_reason(
    send: Callable[..., Any], certificate: Any, code: grpc.StatusCode, expected: type[Exception]
) -> None:
    calls: list[bytes] = []

    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        if request:  # not the question for sealing keys, which goes unanswered like everything here
            calls.append(request)
        context.abort(code, "no")
        raise AssertionError

    with provider(refuse, certificate) as address, pytest.raises(expected) as caught:
        send(address, attempts=3, sleep=lambda _seconds: None)
    assert len(calls) == (3 if expected is Unreachable else 1)
    assert len(set(calls)) == 1
    if isinstance(caught.value, Refused):
        assert caught.value.reason == code.name.lower()


def test_a_reason_in_the_trailer_is_the_refusals_word(send: Callable[..., Any], certificate: Any) -> None:
    def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata((("trimask-reason", "study_closed"),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "this study takes no more submissions")
        raise AssertionError

    with (
        provider(refuse, certificate) as address,
        pytest.raises(Refused, match="no more submissions") as caught,
    ):
        send(address)
    assert caught.value.reason == "study_closed"


def test_a_provider_that_never_answers(send: Callable[..., Any], certificate: Any) -> None:
    done = threading.Event()

    def hang(request: bytes, context: grpc.ServicerContext) -> bytes:
        done.wait(30)
        return b""

    with provider(hang, certificate) as address:
        try:
            with pytest.raises(Unreachable):
                send(address, timeout_seconds=0.2)
        finally:
            done.set()


def test_a_certificate_of_another_authority(send: Callable[..., Any]) -> None:
    foreign = issue_certificate(make_authority(), NAME)
    with (
        provider(lambda _request, _context: b"", foreign) as address,
        pytest.raises(Unreachable, match="TLS certificate"),
    ):
        send(address)


def test_a_certificate_of_another_name(send: Callable[..., Any], certificate: Any) -> None:
    with provider(lambda _request, _context: b"", certificate) as address, pytest.raises(Unreachable):
        send(address, tls_name="elsewhere.trimask.local")

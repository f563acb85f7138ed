"""One suite, two transports: against a stock grpcio server and against a real right provider."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from trimask_client import Client, Endpoint, Transport, Unreachable
from trimask_client.transport import H2Transport
from trimask_core.basics.errors import Refused
from trimask_core.submit.submission import SealedSubmission
from trimask_patience import patience
from trimask_proto.v1.submission_pb2 import SubmitRequest, SubmitResponse

ANSWERS = {"hours": 7.5, "active": "yes"}
SUBMIT = "/trimask_proto.v1.SubmissionService/Submit"


def test_ok(transport: Transport, stock: Any) -> None:
    for message in (b"", b"x", bytes(range(256)) * 40):
        assert transport.call(stock.endpoint, "/t.T/Echo", message, 60) == message


def test_refusal_with_its_reason_and_its_words(transport: Transport, stock: Any) -> None:
    with pytest.raises(Refused, match="100 % closed: très désolé") as caught:
        transport.call(stock.endpoint, "/t.T/Refuse", b"", 60)
    assert caught.value.reason == "study_closed"


def test_refusal_without_a_reason_is_counted_under_its_status(transport: Transport, stock: Any) -> None:
    with pytest.raises(Refused, match="not you") as caught:
        transport.call(stock.endpoint, "/t.T/Plain", b"", 60)
    assert caught.value.reason == "permission_denied"


def test_a_method_that_is_not_there(transport: Transport, stock: Any) -> None:
    with pytest.raises(Refused) as caught:
        transport.call(stock.endpoint, "/t.T/Nothing", b"", 60)
    assert caught.value.reason == "unimplemented"


def test_a_server_that_says_later_is_unreachable(transport: Transport, stock: Any) -> None:
    with pytest.raises(Unreachable):
        transport.call(stock.endpoint, "/t.T/Busy", b"", 60)


def test_deadline(transport: Transport, stock: Any) -> None:
    seconds = 0.25
    while not stock.entered.is_set():  # on a busy machine the time may be over before the call arrives
        # The server watches the same deadline; it may be the one to end the call, by its status or by a reset.
        with pytest.raises(Unreachable, match=r"in time|broke the call off|no answer"):
            transport.call(stock.endpoint, "/t.T/Hang", b"", seconds)
        seconds *= 2
    assert transport.call(stock.endpoint, "/t.T/Echo", b"again", 60) == b"again"


def test_server_gone_mid_call(transport: Transport, stock: Any) -> None:
    outcome: list[BaseException] = []

    def call() -> None:
        try:
            transport.call(stock.endpoint, "/t.T/Hang", b"", 30)
        except Unreachable as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    assert stock.entered.wait(patience(20))
    stock.server.stop(None)
    thread.join(patience(20))
    assert len(outcome) == 1


def test_nobody_listens(transport: Transport, serve: Callable[..., Any]) -> None:
    stock = serve()
    stock.stop()
    with pytest.raises(Unreachable, match=str(stock.port)):
        transport.call(stock.endpoint, "/t.T/Echo", b"", 60)
    stock.start()


def test_expired_certificate(transport: Transport, serve: Callable[..., Any], tls: Any) -> None:
    with pytest.raises(Unreachable, match="certificate is expired"):
        transport.call(serve(tls.expired).endpoint, "/t.T/Echo", b"", 60)


def test_certificate_of_another_name(transport: Transport, serve: Callable[..., Any], tls: Any) -> None:
    with pytest.raises(Unreachable, match="certificate carries another name"):
        transport.call(serve(tls.other_name).endpoint, "/t.T/Echo", b"", 60)


def test_certificate_of_an_authority_the_study_does_not_name(transport: Transport, stock: Any) -> None:
    from trimask_server.local.keys import make_authority

    roots = make_authority().certificate.decode()
    with pytest.raises(Unreachable, match="not from an authority"):
        transport.call(Endpoint(stock.endpoint.address, stock.endpoint.tls_name, roots), "/t.T/Echo", b"", 60)


def test_answers_and_requests_above_the_flow_control_window(transport: Transport, stock: Any) -> None:
    size = 3 << 20  # the window is 65,535 bytes unless somebody widens it
    assert transport.call(stock.endpoint, "/t.T/Big", str(size).encode(), 30) == bytes(size)
    request = bytes(range(256)) * (1 << 12)
    assert transport.call(stock.endpoint, "/t.T/Echo", request, 30) == request


def test_an_answer_of_more_than_4_mib_is_refused(transport: Transport, stock: Any) -> None:
    with pytest.raises(Refused) as caught:
        transport.call(stock.endpoint, "/t.T/Big", str((4 << 20) + 1).encode(), 30)
    assert caught.value.reason == "resource_exhausted"
    assert transport.call(stock.endpoint, "/t.T/Big", str(4 << 20).encode(), 30) == bytes(4 << 20)


def test_many_calls_share_one_connection(transport: Transport, stock: Any) -> None:
    for number in range(300):
        assert transport.call(stock.endpoint, "/t.T/Echo", b"%d" % number, 60) == b"%d" % number
        if number % 50 == 0:
            with pytest.raises(Refused):
                transport.call(stock.endpoint, "/t.T/Refuse", b"", 60)
    assert len(stock.peers) == 300
    assert len(set(stock.peers)) == 1


def test_server_restart(transport: Transport, stock: Any) -> None:
    for _ in range(3):
        assert transport.call(stock.endpoint, "/t.T/Echo", b"before", 60) == b"before"
        stock.stop()
        stock.start()
        # grpcio may not have noticed yet that the old connection is gone; h2 looks before it sends.
        for attempt in range(100):
            try:
                assert transport.call(stock.endpoint, "/t.T/Echo", b"after", 60) == b"after"
                break
            except Unreachable:
                assert attempt < 99
                assert type(transport).__name__ == "GrpcioTransport"
    assert len(set(stock.peers)) == 4


def test_several_threads(transport: Transport, stock: Any) -> None:
    wrong: list[int] = []

    def call(number: int) -> None:
        for i in range(20):
            message = b"%d %d" % (number, i)
            if transport.call(stock.endpoint, "/t.T/Echo", message, 20) != message:
                wrong.append(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(60))
    assert wrong == []
    assert len(stock.peers) == 80
    assert len(set(stock.peers)) == 1


def test_a_transport_that_was_closed_opens_again(stock: Any) -> None:
    made = H2Transport()
    made.close()  # nothing was opened
    assert made.call(stock.endpoint, "/t.T/Echo", b"x", 10) == b"x"
    made.close()
    assert made.call(stock.endpoint, "/t.T/Echo", b"again", 10) == b"again"
    made.close()


# A real right provider


@pytest.fixture(scope="module")
def open_study(device_lab: Any) -> Any:
    return device_lab.open_study("Transports")


def _request(submission: SealedSubmission, k: int) -> bytes:
    return SubmitRequest(
        study_id=submission.study_id,
        submission_id=submission.submission_id,
        sealed_component=submission.sealed[k - 1],
    ).SerializeToString()


def _endpoint(signed: Any, role: str) -> Endpoint:
    party = signed.study.party(role)
    return Endpoint(party.address, party.tls_name, signed.study.tls_roots)


def test_a_whole_submission(transport: Transport, open_study: Any, device_lab: Any) -> None:
    client = Client(open_study, transport=transport)
    receipt = client.submit(ANSWERS)
    receipt.verify(open_study.study)
    for role in ("R1", "R2", "R3"):
        assert receipt.submission_id in device_lab.rows(role, open_study.study.id)


def test_a_provider_refuses_with_its_reason(transport: Transport, open_study: Any) -> None:
    client = Client(open_study, transport=transport)
    first, second = client.prepare(ANSWERS), client.prepare(ANSWERS)
    SubmitResponse.FromString(transport.call(_endpoint(open_study, "R1"), SUBMIT, _request(first, 1), 60))
    mixed = SealedSubmission(first.study_id, first.submission_id, second.sealed)
    with pytest.raises(Refused, match="used before") as caught:
        transport.call(_endpoint(open_study, "R1"), SUBMIT, _request(mixed, 1), 60)
    assert caught.value.reason == "conflicting_submission"
    unknown = SealedSubmission(bytes(32), first.submission_id, first.sealed)
    with pytest.raises(Refused) as caught:
        transport.call(_endpoint(open_study, "R1"), SUBMIT, _request(unknown, 1), 60)
    assert caught.value.reason == "unknown_study"


def test_one_provider_under_the_name_of_another(transport: Transport, open_study: Any) -> None:
    one, two = _endpoint(open_study, "R1"), _endpoint(open_study, "R2")
    with pytest.raises(Unreachable, match="certificate carries another name"):
        transport.call(Endpoint(one.address, two.tls_name, one.roots), SUBMIT, b"", 60)


def test_a_provider_that_restarts(transport: Transport, open_study: Any, device_lab: Any) -> None:
    client = Client(open_study, transport=transport, sleep=lambda _: None, attempts=50)
    first = client.submit(ANSWERS)
    device_lab.cluster.stop("R2")
    device_lab.cluster.start("R2")
    second = client.submit(ANSWERS)
    assert {first.submission_id, second.submission_id} <= set(device_lab.rows("R2", open_study.study.id))

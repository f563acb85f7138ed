"""One try is one trace over all parties; logs name the request and the study; neither has anything of a person."""

from __future__ import annotations

import errno
import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from trimask_cli import owner
from trimask_client import Client
from trimask_core.basics.refusals import Reason
from trimask_patience import patience
from trimask_server.local.cluster import ThreadCluster
from trimask_server.runtime import context as node_context
from trimask_server.runtime import logs
from trimask_server.runtime.logs import (
    configure_tracing,
    current_request,
    current_study,
    incoming_context,
    known_request_id,
    study_prefix,
)

ALLOWED = {"rpc.system.name", "rpc.method", "rpc.response.status_code", "trimask.node", "trimask.study"}


class _Kept(logging.Handler):
    """Every line as the node would print it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logs._Json())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture
def observed(keys_only: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A whole study, with every span and every line of the log kept."""
    exporter, kept = InMemorySpanExporter(), _Kept()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(node_context, "tracer_in_use", lambda: provider.get_tracer("test"))
    with ThreadCluster(keys_only.folder) as keys_only.cluster:
        for node in keys_only.cluster:
            node.context.log.addHandler(kept)
        signed = keys_only.open_study()
        with Client(signed) as client:
            submissions = [client.prepare({"hours": hour / 3, "rested": True}) for hour in range(32)]
            for submission in submissions:
                client.send(submission)
        owner.close_study(signed.study, keys_only.folder / "owner")
        keys_only.until(lambda: owner.study_status(signed.study).state == "closed")
        yield signed.study, submissions, exporter.get_finished_spans(), kept.lines


def test_a_try_is_one_trace_and_nothing_is_personal(observed: Any) -> None:
    study, submissions, spans, lines = observed
    nodes, names = defaultdict(set), defaultdict(set)
    for span in spans:
        trace = span.context.trace_id
        names[trace].add(span.name.rpartition("/")[2])
        nodes[trace].add((span.attributes or {}).get("trimask.node"))
        assert set(span.attributes or {}) <= ALLOWED
        assert span.events == ()  # no exception with a message of its own
    blocks = [trace for trace, found in names.items() if "PushDelivery" in found]
    assert len(blocks) == 2
    for block in blocks:
        assert names[block] >= {"try", "StartMasking", "PushComponent", "PushMasked", "PushDelivery"}
        assert nodes[block] >= {"collector", "R1", "R2", "L1"}
        assert "OpenStudy" not in names[block]
    # A device's calls are roots of their own, one by one: nothing ties them together.
    own = [span for span in spans if span.name.endswith("/Submit")]
    assert len({span.context.trace_id for span in own}) == len(own) == 64
    everything = "\n".join([*lines, *(span.to_json() for span in spans)])
    for submission in submissions:
        assert submission.submission_id.hex() not in everything
        assert repr(submission.submission_id) not in everything
    assert study.id.hex() not in "\n".join(lines)  # a prefix is enough
    assert not re.search(r"127\.0\.0\.1:\d{5}", "\n".join(line for line in lines if '"ready' not in line))


def test_lines_name_the_request_and_the_study(observed: Any) -> None:
    study, _, _, lines = observed
    entries = [json.loads(line) for line in lines]
    masked = [entry for entry in entries if entry["message"] == "masked"]
    assert {entry["node"] for entry in masked} == {"trimask.R1", "trimask.R2", "trimask.L1"}
    assert {entry["study"] for entry in masked} == {study.id.hex()[:12]}
    assert {entry["attempt"] for entry in masked} == {1}
    assert {len(entry["block"]) for entry in masked} == {32}
    # What a line names is no part of its message, in any line of a whole study.
    assert not [entry for entry in entries if "=" in entry["message"] or len(entry["message"]) > 100]
    assert {entry["rows"] for entry in entries if entry["message"] == "pooled"} == {16}
    assert all(re.fullmatch("[0-9a-f]{16}", entry["request_id"]) for entry in masked)
    by_trace = {entry["trace_id"] for entry in masked}
    assert len({entry["request_id"] for entry in masked}) == len(by_trace) == 2  # one id all the way


def test_a_stranger_names_no_request(ops_lab: Any) -> None:
    """Context that comes on the public port is not taken over; a peer's is, if it is one."""
    assert known_request_id("0123456789abcdef") == "0123456789abcdef"
    for wrong in ("", "x" * 16, "0" * 17, b"0" * 16, None, "0123456789ABCDEF\n"):
        assert known_request_id(wrong) == ""
    from trimask_proto.v1 import right_masking_pb2, submission_pb2

    assert study_prefix(submission_pb2.SubmitRequest(study_id=b"\xab" * 32)) == "ab" * 6
    assert study_prefix(submission_pb2.SubmitRequest(study_id=b"\xab")) == ""
    start = right_masking_pb2.StartMaskingRequest()
    start.attempt.study_id = b"\xcd" * 32
    assert study_prefix(start) == "cd" * 6
    from opentelemetry import trace

    parent = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    found = trace.get_current_span(incoming_context(parent)).get_span_context()
    assert f"{found.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert not trace.get_current_span(incoming_context({})).get_span_context().is_valid


def test_context_is_taken_from_peers_alone(keys_only: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from trimask_client.grpc_channel import open_channel
    from trimask_proto.v1 import node_pb2, node_pb2_grpc, submission_pb2, submission_pb2_grpc

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(node_context, "tracer_in_use", lambda: provider.get_tracer("test"))
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    metadata = (("traceparent", f"00-{trace_id}-b7ad6b7169203331-01"),)
    party, keys = keys_only.parties["R1"], keys_only.folder / "owner"
    with (
        ThreadCluster(keys_only.folder),
        open_channel(party.address, keys / "ca.pem", party.tls_name) as channel,
        open_channel(
            party.peer_address, keys / "ca.pem", party.tls_name, keys / "tls.pem", keys / "tls.key"
        ) as peer,
    ):
        stub = submission_pb2_grpc.SubmissionServiceStub(channel)
        stub.GetSealingKeys(submission_pb2.GetSealingKeysRequest(), metadata=metadata, timeout=patience(10))
        node = node_pb2_grpc.NodeServiceStub(peer)
        node.DescribeNode(node_pb2.DescribeNodeRequest(), metadata=metadata, timeout=patience(10))
    found = {
        span.name.rpartition("/")[2]: f"{span.context.trace_id:032x}"
        for span in exporter.get_finished_spans()
    }
    assert found["DescribeNode"] == trace_id
    assert found["GetSealingKeys"] != trace_id


def test_text_lines_carry_the_same(capsys: Any) -> None:
    logger = logs.configure("text-test", "text")
    request, study = current_request.set("0" * 16), current_study.set("ab" * 6)
    logger.info("hello")
    current_request.reset(request)
    current_study.reset(study)
    logger.info("nobody")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("trimask.text-test: hello [request_id=0000000000000000 study=abababababab]")
    assert second.endswith("nobody")


@pytest.mark.parametrize(("template", "args", "message", "fields"), [
    ("pooled block=%s rows=%d", ("ab", 3), "pooled", {"block": "ab", "rows": 3}),
    ("refused rpc=%s reason=%s why=%s", ("/S/M", Reason.DRAINING, "wait"), "refused",
     {"rpc": "/S/M", "reason": "draining", "why": "wait"}),
    ("study=%s waits: reason=%s: %s", ("ab", "x", "a=1, b: c"), "waits: a=1, b: c", {"study": "ab", "reason": "x"}),
    ("collected study=%s: erased what was left, rows=%d", ("ab", 3), "collected: erased what was left",
     {"study": "ab", "rows": 3}),
    ("100%% of %d: %.1f", (2, 0.25), "100% of 2: 0.2", {}),
    ("no arguments: 5% of it", (), "no arguments: 5% of it", {}),
])  # fmt: skip
def test_repro_fields_are_fields(template: str, args: Any, message: str, fields: dict[str, Any]) -> None:
    """They were in the message, and every program had to take it apart."""
    entry = json.loads(logs._Json().format(logging.makeLogRecord({"msg": template, "args": args})))
    assert entry.pop("message") == message
    assert {key: entry[key] for key in entry if key not in ("time_ms", "level", "node")} == fields


def test_what_waits_says_so_once_a_minute_and_requests_always(capsys: Any) -> None:
    logger = logs.configure("repeat-test", "text")
    for second in (0, 1, 59, 60, 61):
        record = logger.makeRecord(logger.name, logging.WARNING, "", 0, "waits: %s", ("it",), None)
        record.created = 1000.0 + second
        logger.handle(record)
    assert capsys.readouterr().err.count("waits: it") == 2
    for number in range(3):
        current_request.set(f"{number:016x}")
        logger.warning("refused")
    current_request.set("")
    assert capsys.readouterr().err.count("refused") == 3


def test_repro_a_full_disk_has_no_traceback_and_a_mistake_has(capsys: Any) -> None:
    logger = logs.configure("failing-test", "text")
    for error in (OSError(errno.ENOSPC, "No space left"), TypeError("a mistake")):
        try:
            raise error
        except (OSError, TypeError):
            logger.exception("failed rpc=%s", "/S/M")
    full, mistake = capsys.readouterr().err.split("\n", 1)
    assert full.endswith("failed rpc=/S/M why=[Errno 28] No space left")
    assert "Traceback" in mistake


def test_nothing_is_exported_unless_asked(monkeypatch: Any) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert not configure_tracing("R1", "right")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not configure_tracing("R1", "right")

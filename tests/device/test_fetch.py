"""Fetching a study by its link: the hash in the link decides, whoever answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trimask_client import Endpoint, Unreachable
from trimask_client.fetch import fetch_study
from trimask_client.transport import H2Transport
from trimask_core.basics.errors import Refused, StudyError
from trimask_core.submit.invitation import Link
from trimask_proto.v1.study_pb2 import GetStudyRequest, GetStudyResponse
from trimask_terminal.device.program import main


@pytest.fixture(scope="module")
def signed(device_lab: Any) -> Any:
    return device_lab.open_study("Fetched")


def _roots(device_lab: Any) -> str:
    return str((device_lab.folder / "authority" / "ca.pem").read_text())


def test_a_study_is_fetched_with_what_a_device_needs(device_lab: Any, signed: Any) -> None:
    collector = signed.study.collector
    found = fetch_study(collector.address, signed.study.id)
    assert found.to_json() == signed.to_json()
    assert found.study.rows.mask_seed
    again = fetch_study(
        collector.address, signed.study.id, roots=_roots(device_lab), tls_name=collector.tls_name
    )
    assert again.study == signed.study
    with pytest.raises(Refused) as caught:
        fetch_study(collector.address, bytes(32))
    assert caught.value.reason == "unknown_study"


def test_others_are_given_the_study_without_the_seed(device_lab: Any, signed: Any) -> None:
    collector = signed.study.collector
    transport = H2Transport()
    answer = transport.call(
        Endpoint(collector.address, collector.tls_name, _roots(device_lab)),
        "/trimask_proto.v1.StudyService/GetStudy",
        GetStudyRequest(study_id=signed.study.id).SerializeToString(),
        5.0,
    )
    transport.close()
    assert "mask_seed" not in json.loads(GetStudyResponse.FromString(answer).signed_study)


def test_who_is_told_whom_to_trust_trusts_nobody_else(signed: Any, tls: Any) -> None:
    address = signed.study.collector.address
    for roots, name in ((tls.roots, "collector.trimask.local"), ("", "")):
        with pytest.raises(Unreachable, match="certificate"):
            fetch_study(address, signed.study.id, roots=roots, tls_name=name)


def _answers(text: bytes) -> Callable[[Any], None]:
    def script(peer: Any) -> None:
        stream = peer.request()
        asked = GetStudyRequest.FromString(bytes(peer.bodies[stream][5:]))
        assert (len(asked.study_id), asked.for_device) == (32, True)  # and nothing else is sent
        peer.answer(stream, GetStudyResponse(signed_study=text).SerializeToString())
        peer.linger()

    return script


def test_whoever_sits_in_between_can_only_withhold(play: Any, signed: Any, make_study: Any) -> None:
    other = make_study(label="another").signed
    data = json.loads(signed.to_json())
    unsigned = {**data, "approvals": data["approvals"][1:]}
    forged = json.loads(signed.to_json())
    forged["study"]["right"][0]["address"] = "evil.example:1"
    reseeded = {**data, "mask_seed": json.loads(other.to_json())["mask_seed"]}
    without = {name: value for name, value in data.items() if name != "mask_seed"}
    for text, said in (
        (other.to_json().encode(), "another study than that of the invitation"),
        (json.dumps(forged).encode(), "another study than that of the invitation"),
        (json.dumps(unsigned).encode(), "not approved yet by"),
        (json.dumps(reseeded).encode(), "mask_seed must be"),
        (json.dumps(without).encode(), "without the seed"),
        (b"{}", "not a study"),
        (b"\xff", "not a study"),
        (b"[" * 200_000, "not a study"),
        (b'{"study": 3}', "another study"),
    ):
        peer = play(_answers(text))
        with pytest.raises(StudyError, match=said):
            fetch_study(peer.endpoint.address, signed.study.id)


def test_joining_by_link_and_withdrawing_by_receipt_alone(
    device_lab: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = device_lab.open_study("Linked").study
    link = str(Link(study.collector.address, study.id))
    home = ["--home", str(tmp_path / "home")]
    assert main([*home, "join", link]) == 0
    out = capsys.readouterr().out
    assert "Linked" in out
    assert f"Joined {study.id.hex()[:12]}" in out
    assert main([*home, "answer", "hours=7.5", "active=yes", "--send"]) == 0
    receipt = tmp_path / "receipt.json"
    assert main([*home, "receipt", "--out", str(receipt)]) == 0
    # Another device, which knows nothing but the receipt.
    assert main(["--home", str(tmp_path / "other"), "withdraw", "--receipt", str(receipt)]) == 0
    assert "all 3 providers have signed that it is erased" in capsys.readouterr().out
    ca = tmp_path / "ca.pem"
    ca.write_text(_roots(device_lab))
    assert main([*home, "join", link, "--ca", str(ca)]) == 3  # its certificate does not carry the host's name
    assert main([*home, "join", link, "--ca", str(ca), "--tls-name", study.collector.tls_name]) == 0
    assert main([*home, "join", link[:-9]]) == 2
    assert "not whole" in capsys.readouterr().err

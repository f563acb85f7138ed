"""Writes the vectors of a device's whole way, device-*.json.

    PYTHONPATH=tests/support python tests/vectors/make_device_vectors.py

They are for clients in other languages; tests/vectors/README.md says which file shows what. Bytes are hexadecimal. Every
private key in them is for these files alone.
"""

# ruff: noqa: E501 - one line a case
from __future__ import annotations

import base64
import copy
import hashlib
import json
from pathlib import Path
from typing import Any

from moments_cases import EFFECTS
from trimask_client import Client
from trimask_core.basics.encoding import canonical_json, read_json
from trimask_core.basics.errors import TrimaskError
from trimask_core.crypto.keys import SigningKey, component_info, sealing_key_id, sealing_key_message
from trimask_core.study.derived import Derived
from trimask_core.study.guarantee import Budget
from trimask_core.study.schema import Attribute, Schema
from trimask_core.study.signed import SignedStudy
from trimask_core.study.weight import Weight
from trimask_core.submit.institutions import Directory, Institution
from trimask_core.submit.invitation import (
    Invitation,
    Link,
    admission_message,
    invited_message,
    signed_digests,
)
from trimask_core.submit.submission import (
    ProviderReceipt,
    Receipt,
    receipt_digest_message,
    submission_id_of,
    withdrawal_message,
)
from trimask_proto.v1.submission_pb2 import (
    GetSealingKeysResponse,
    SealingKeyRecord,
    SubmitRequest,
    SubmitResponse,
    WithdrawRequest,
    WithdrawResponse,
)
from web_cases import Made, Recorded, made_study, submission

__all__ = ["documents", "written"]

FOLDER = Path(__file__).parent
SOURCE = "tests/vectors/make_device_vectors.py"
SCHEMA = Schema(
    (
        Attribute("age", "integer", 18, 80, label="Age", unit="years"),
        Attribute("bmi", "continuous", 15, 45),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    derived=(Derived("log_bmi", "log", ("bmi",)), Derived("age_bmi", "product", ("age", "bmi"))),
)
SMALL = Schema(
    (
        Attribute("hours", "continuous", 0, 6, step=0.5, centre=2, scale=2),
        Attribute("smoker", "binary"),
        Attribute("region", "categorical", levels=("north", "south", "west")),
    ),
    derived=(Derived("hours_smoker", "product", ("hours", "smoker")),),
)
ANSWERS = {"age": 43, "bmi": 27.25, "smoker": True, "region": "south"}
SMALL_ANSWERS = {"hours": 6, "smoker": True, "region": "west"}
EFFECTS_ANSWERS = {"hours": 3.5, "age": 25, "smoker": False, "region": "north", "sex": "f"}
NOW = 1_700_000_123_456
GONE = object()
EXACT = {
    "sigma": 0.0, "method": "exact", "public": None, "collector": None, "by_honest_rows": [], "right_providers": None,
    "budget": {"epsilon": 2.0, "delta": 1e-6, "mu": None},
}  # fmt: skip
LONG_PRODUCT = {"name": "pair", "kind": "product", "of": ["hours", "age"]}
NO_PRODUCT = {"name": "triple", "kind": "product", "of": ["pair", "region"]}
TEXTS_REFUSED = ["", "{", "{}", "[]", '{"study": {}, "approvals": []}', '{"study": 1, "approvals": []}']


def studies() -> list[tuple[str, Made, dict[str, Any]]]:
    """One of every kind a device meets, with answers to it."""
    tagged = {"right": 4, "left": 2, "invited": True, "web": True}
    return [
        ("rows, three providers", made_study("rows", SCHEMA), ANSWERS),
        ("rows, four providers with tags, invited", made_study("tags", SCHEMA, **tagged), ANSWERS),
        ("rows, clipped to a smaller norm", made_study("norm", SCHEMA, row_norm=1.5), ANSWERS),
        ("moments, a budget", made_study("budget", SMALL, suite="moments", right=2, budget=Budget(2.0, 1e-6, None)), SMALL_ANSWERS),
        ("moments, two providers", made_study("box", SMALL, suite="moments", right=2, sigma=30.0, several=True), SMALL_ANSWERS),
        ("moments, a ball, three providers, invited",
         made_study("ball", SMALL, suite="moments", right=3, sigma=30.0, row_norm=2.25, invited=True, web=True), SMALL_ANSWERS),
        ("rows, every derived column", made_study("effects", EFFECTS, block_rows=56), EFFECTS_ANSWERS),
        ("moments, every derived column", made_study("effects moments", EFFECTS, suite="moments", right=2, sigma=900.0), EFFECTS_ANSWERS),
        ("rows, weighted by a choice", made_study("weight", SCHEMA, weight=Weight("region", (1.0, 2.5, 4.0))), ANSWERS),
        ("rows, an answered weight and a smaller norm", made_study("answered", SCHEMA, row_norm=1.5, weight=Weight("bmi")), ANSWERS),
        ("moments, weighted by a choice, a ball",
         made_study("weight moments", SMALL, suite="moments", right=2, sigma=30.0, row_norm=2.25, weight=Weight("region", (1.0, 2.5, 4.0), 256)), SMALL_ANSWERS),
        ("rows, sealed hybrid", made_study("hybrid", SCHEMA, right=2, left=1, kind="hybrid"), ANSWERS),
        ("moments, sealed hybrid, invited", made_study("hybrid moments", SMALL, suite="moments", right=2, sigma=30.0, invited=True, kind="hybrid"), SMALL_ANSWERS),
    ]  # fmt: skip


def json_cases() -> dict[str, Any]:
    """How JSON is read and written before it is hashed."""
    texts = [
        '{"b": 1, "a": 1.0, "A": -0.0, "é": 0, "z": -0}',
        "[1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1, 5e-324, 1.7976931348623157e308, 2.5e-7, 100.0, 1e22]",
        '["\\u0000\\u001f\\b\\f\\n\\r\\t\\"\\\\\\/", "\\u00e9\\ud83d\\udc4b\\u2028\\u007f"]',
        '{"\\ud83d\\udc4b": 1, "\\uffff": 2, "a": 3, "": 4}',
        "[123456789012345678901234567890, -1, true, false, null, {}, []]",
        ' \t\n\r{"a" : [ ] , "a" : 2 } ',
        "[3.0, 3, 0.30000000000000004, 1e2, 1E+2, 12.50]",
    ]
    refused = [
        "", "{", "[1,]", '{"a":1,}', "{a:1}", "[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[NaN]", "[Infinity]", "[-Infinity]",
        "[1e999]", "[-1e999]", '["\t"]', '["\\x"]', '["\\u12"]', "['a']", "[1] 2", "nul", "[0x1]",
    ]  # fmt: skip
    for text in refused:
        try:
            read_json(text)
        except ValueError:
            continue
        raise AssertionError(text)
    return {
        "what": "JSON as it is read, and its canonical form: keys by code point, no spaces, UTF-8, 1 apart from 1.0; then what is "
        "refused. A text with half a surrogate pair has no canonical form.",
        "cases": [{"text": text, "canonical": canonical_json(read_json(text)).decode()} for text in texts],
        "refused": refused,
        "no_canonical_form": ['["\\ud83d"]', '{"\\udc4b": 1}'],
    }


def spoilt(made: Made, path: list[str | int], to: Any, *, sign: bool) -> dict[str, Any]:
    """A signed study with one thing set (or taken out, `to` being `GONE`); with `sign`, everybody signs what it says now."""
    data = json.loads(made.signed.to_json())
    place = data
    for key in path[:-1]:
        place = place[key]  # type: ignore[index]
    if to is GONE:
        del place[path[-1]]  # type: ignore[arg-type]
    else:
        place[path[-1]] = to  # type: ignore[index]
    case = {"path": path, "remove": True} if to is GONE else {"path": path, "set": to}
    if sign:
        study_id = hashlib.sha256(canonical_json(data["study"])).digest()
        for approval in data["approvals"]:
            commitment = base64.b64decode(approval["commitment"])
            message = study_id + len(commitment).to_bytes(1, "big") + commitment + approval["role"].encode()
            signature = made.identities[approval["role"]].sign("study-approval", message)
            approval["signature"] = base64.b64encode(signature).decode()
        case["signatures"] = [approval["signature"] for approval in data["approvals"]]
    case["reason"] = _must_refuse(f"{path} = {to}", json.dumps(data))
    return case


def study_cases() -> dict[str, Any]:
    """Whole studies, and what is refused of them."""
    every = studies()
    made = {name: study for name, study, _ in every}
    rows, moments = made["rows, three providers"], made["moments, a ball, three providers, invited"]
    tagged, hybrid = made["rows, four providers with tags, invited"], made["rows, sealed hybrid"]

    other = base64.b64encode(bytes(32)).decode()
    cases: list[tuple[str, Made, list[str | int], Any]] = [
        ("a title changed after signing", rows, ["study", "title"], "Another"),
        ("an approval missing", rows, ["approvals", 0], GONE),
        ("an approval of somebody else", rows, ["approvals", 0, "role"], "R9"),
        ("another's signature", rows, ["approvals", 0, "signature"], base64.b64encode(bytes(64)).decode()),
        ("a commitment where none belongs", rows, ["approvals", 0, "commitment"], other),
        ("a commitment missing", moments, ["approvals", 0, "commitment"], ""),
        ("a commitment changed", moments, ["approvals", 0, "commitment"], other),
        ("another seed of B_0", rows, ["mask_seed"], other),
    ]  # fmt: skip
    numbers: list[tuple[str, Made, list[str | int], Any]] = [
        ("a setting nobody knows", rows, ["study", "more"], 1),
        ("a setting missing", rows, ["study", "licence"], GONE),
        ("another format", rows, ["study", "format"], "trimask-study/9"),
        ("another suite", rows, ["study", "suite", "name"], "columns"),
        ("epsilon smaller than the noise gives", rows, ["study", "protection", "public", "epsilon"], 0.5),
        ("a promise towards the collector that the noise does not keep", rows, ["study", "protection", "collector", "epsilon"], 1.0),
        ("a promise about rows of another norm", rows, ["study", "protection", "public", "neighbours", "row_norm"], 1.0),
        ("a promise without noise", rows, ["study", "protection", "sigma"], 0.0),
        ("epsilon smaller than the noise of moments gives", moments, ["study", "protection", "public", "epsilon"], 0.5),
        ("nothing said of all right providers", rows, ["study", "protection", "right_providers"], None),
        ("a mu towards right providers that the noise does not keep", rows, ["study", "protection", "right_providers", "mu"], 0.5),
        ("nothing said of the grid", rows, ["study", "protection", "public", "discrete_epsilon"], GONE),
        ("another noise of publishing", rows, ["study", "suite", "publishing_steps"], 3),
        ("a mu of the noise columns that they do not give", rows, ["study", "suite", "noise_columns_mu"], 0.0),
        ("honest rows that do not hold", rows, ["study", "protection", "by_honest_rows"], [[8, 0.25]]),
        ("honest rows out of order", rows, ["study", "protection", "by_honest_rows"], [[8, 90.0], [9, 80.0]]),
        ("tau too small", rows, ["study", "suite", "tau"], 0.5),
        ("sigma between grid steps", rows, ["study", "protection", "sigma"], 0.5000000001),
        ("a grid too fine", rows, ["study", "suite", "grid_exponent"], -40),
        ("a grid too coarse", rows, ["study", "suite", "grid_exponent"], -11),
        ("too large a share leakage", rows, ["study", "suite", "share_leakage"], 0.25),
        ("blocks smaller than a row", rows, ["study", "suite", "block_rows"], 3),
        ("a release smaller than a block", rows, ["study", "release_rows"], 4),
        ("too few noise columns", rows, ["study", "suite", "noise_columns"], 40),
        ("too few noise columns for tags", tagged, ["study", "suite", "noise_columns"], 60),
        ("one party that sees everything", tagged, ["study", "suite", "unmasking"], ["L1"] * 4),
        ("an unmasking node that is not there", rows, ["study", "suite", "unmasking"], ["R1", "R2", "L9"]),
        ("a row norm above the schema's", rows, ["study", "protection", "row_norm"], 9.0),
        ("the same sealing key twice", rows, ["study", "right", 0, "sealing"], base64.b64encode(rows.study.right[1].sealing).decode()),
        ("a left provider with a sealing key", rows, ["study", "left", 0, "sealing"], other),
        ("the owner's key is the collector's", rows, ["study", "owner_key"], rows.study.collector.identity.hex()),
        ("the collector admits", tagged, ["study", "admission_signer"], "collector"),
        ("the owner's key is missing", rows, ["study", "owner_key"], ""),
        ("a page without a host", tagged, ["study", "web", "hosts"], []),
        ("a page from an address that is not safe", tagged, ["study", "web", "hosts"], ["http://survey.example"]),
        ("a page and a provider that browsers do not reach", tagged, ["study", "right", 0, "https"], ""),
        ("an escape sequence in the title", rows, ["study", "title"], "Sleep\x1b[2K\x1b[1AApproved"),
        ("a second line in the title", rows, ["study", "title"], "Sleep\nApproved by everybody"),
        ("an organisation that reads backwards", rows, ["study", "right", 0, "organisation"], "A \u202ekrow ew"),
        ("a control character in the purpose", rows, ["study", "purpose"], "To learn\x9b2J"),
        ("an attribute named twice", rows, ["study", "schema", "attributes", 0, "name"], "bmi"),
        ("an attribute named as the ones", rows, ["study", "schema", "attributes", 0, "name"], "one"),
        ("bounds the wrong way round", rows, ["study", "schema", "attributes", 1, "minimum"], 50.0),
        ("a logarithm of what may be 0", rows, ["study", "schema", "attributes", 1, "minimum"], 0.0),
        ("a product of a choice and nothing", rows, ["study", "schema", "derived", 1, "of"], ["age"]),
        ("one level", rows, ["study", "schema", "attributes", 3, "levels"], ["north"]),
        ("more honest providers than there are", moments, ["study", "suite", "honest_providers"], 3),
        ("one release, but said so", moments, ["study", "suite", "several_releases"], False),
        ("a ball wider than the box", moments, ["study", "suite", "ball_norm"], 9.0),
        ("a ball that holds no row", moments, ["study", "suite", "ball_norm"], 1.0),
        ("a norm below what the proof lets pass", moments, ["study", "protection", "row_norm"], 1.0),
        ("sums that do not fit the field", moments, ["study", "release_rows"], 10**15),
        ("a step that does not divide the range", moments, ["study", "schema", "attributes", 0, "step"], 0.7),
        ("a product that the sums do not give", made["moments, every derived column"], ["study", "schema", "derived"], [LONG_PRODUCT, NO_PRODUCT]),
        ("a weight without steps in the moments suite", moments, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 3.0], "steps": 0}),
        ("a weight with steps in the rows suite", rows, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 3.0], "steps": 8}),
        ("a weight finer than there is room", moments, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 3.0], "steps": 1025}),
        ("a weight of nobody's", rows, ["study", "weight"], {"attribute": "income", "weights": [], "steps": 0}),
        ("a weight that may be 0", moments, ["study", "weight"], {"attribute": "hours", "weights": [], "steps": 8}),
        ("a yes or no for a weight", rows, ["study", "weight"], {"attribute": "smoker", "weights": [], "steps": 0}),
        ("a weight of 0", rows, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 0.0], "steps": 0}),
        ("a level without a weight", rows, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0], "steps": 0}),
        ("a table of weights for a number", rows, ["study", "weight"], {"attribute": "age", "weights": [1.0, 2.0], "steps": 0}),
        ("a weight 20,000 times another's", rows, ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 20000.0], "steps": 0}),
        ("a weight beside a budget", made["moments, a budget"], ["study", "weight"], {"attribute": "region", "weights": [1.0, 2.0, 3.0], "steps": 8}),
        ("a budget in the rows suite", rows, ["study", "protection"], EXACT | {"row_norm": rows.study.protection.row_norm}),
        ("a sealing that nobody knows", rows, ["study", "sealing"], "lattices"),
        ("sealed as before there were two ways, but said so", rows, ["study", "sealing"], "classical"),
        ("sealed hybrid, with classical keys", rows, ["study", "sealing"], "hybrid"),
        ("sealed classically, with hybrid keys", hybrid, ["study", "sealing"], GONE),
        ("sealed hybrid, with one classical key", hybrid, ["study", "right", 1, "sealing"], other),
        ("no weight, but said so", rows, ["study", "weight"], None),
    ]  # fmt: skip
    names = {study.study.id: name for name, study, _ in every}
    refused = [
        {"name": name, "of": names[study.study.id], **spoilt(study, path, to, sign=sign)}
        for group, sign in ((cases, False), (numbers, True))
        for name, study, path, to in group
    ]
    for text in TEXTS_REFUSED:
        _must_refuse(text, text)
    return {
        "what": "Signed studies as devices get them, with id, binding (what parcels are sealed to) and private keys; then what a device must "
        "refuse: study `of` with the value at `path` set or removed. Those with `signatures` (in the order of the approvals) are "
        "signed by everybody: only what they say is wrong; `reason` is the word for it, where its numbers are impossible.",
        "accepted": [
            {
                "name": name,
                "signed": study.signed.to_json(),
                "canonical": study.study.canonical.decode(),
                "id": study.study.id.hex(),
                "binding": study.study.binding.hex(),
                "identities": {role: key.secret_bytes().hex() for role, key in study.identities.items()},
            }
            for name, study, _ in every
        ],
        "refused": refused,
        "texts_refused": TEXTS_REFUSED,
    }


def _must_refuse(name: str, text: str) -> str:
    """The word for it, where the study's numbers are impossible."""
    try:
        Client(SignedStudy.from_json(text))
    except TrimaskError as error:
        return str(getattr(error, "reason", ""))
    raise AssertionError(f"{name}: was not refused")


def message_cases() -> dict[str, Any]:
    """Names, messages that are signed, and receipts."""
    _, made, answers = studies()[0]
    study, source = made.study, Recorded("messages")
    sent = submission(study, answers, source)
    receipts = []
    for k, part in enumerate(sent.sealed, 1):
        digest = signed_digests([part])[0]
        message = receipt_digest_message(study.id, sent.submission_id, digest, NOW + k)
        receipts.append(
            ProviderReceipt(f"R{k}", digest, NOW + k, made.identities[f"R{k}"].sign("receipt", message))
        )
    receipt = Receipt(
        study.id, sent.submission_id, tuple(receipts), sent.withdrawal_key, study.collector.address
    )
    receipt.verify(study)
    gone = withdrawal_message(study.id, sent.submission_id, NOW)
    newer = sealing_key_message(study.right[1].sealing, NOW, 0)
    keys = GetSealingKeysResponse(
        keys=[
            SealingKeyRecord(
                public_key=study.right[1].sealing,
                activate_time_ms=NOW,
                signature=made.identities["R1"].sign("sealing-key", newer),
            )
        ]
    )
    changes = [
        ("another time", lambda data: data["providers"][0].update(receive_time_ms=NOW)),
        ("a provider missing", lambda data: data["providers"].pop()),
        ("two providers changed over", lambda data: data["providers"].reverse()),
        ("another digest", lambda data: data["providers"][0].update(sealed_hash="00" * 32)),
        ("another withdrawal key", lambda data: data.update(withdrawal_key="00" * 32)),
        ("another study", lambda data: data.update(study_id="00" * 32)),
        ("half a digit", lambda data: data.update(submission_id="0")),
    ]
    refused = []
    for name, change in changes:
        data = json.loads(receipt.to_json())
        change(data)
        refused.append({"name": name, "receipt": json.dumps(data)})
    admission = b""
    return {
        "what": "Ids, what is signed and by whom, the messages on the wire, and a receipt; for the first study of device-studies.json.",
        "study_id": study.id.hex(),
        "withdrawal_key": sent.withdrawal_key.hex(),
        "submission_id": submission_id_of(study.id, sent.withdrawal_key).hex(),
        "component_info": [
            component_info(study.binding, k, sent.submission_id).hex() for k in range(1, len(study.right) + 1)
        ],
        "sealing_key_ids": [sealing_key_id(party.sealing).hex() for party in study.right],
        "submit_response": SubmitResponse(receive_time_ms=NOW + 1, signature=receipts[0].signature).SerializeToString().hex(),
        "withdraw_request": WithdrawRequest(
            study_id=study.id, withdrawal_key=sent.withdrawal_key, invitation=admission
        ).SerializeToString().hex(),
        "withdrawal_message": gone.hex(),
        "withdraw_response": WithdrawResponse(
            withdraw_time_ms=NOW, signature=made.identities["R1"].sign("withdrawal", gone)
        ).SerializeToString().hex(),
        "sealing_keys_of_r1": {
            "response": keys.SerializeToString().hex(),
            "message": newer.hex(),
            "newest": study.right[1].sealing.hex(),
        },
        "receipt": receipt.to_json(),
        "receipt_shown": receipt.shown.to_json(),
        "receipts_refused": refused,
    }  # fmt: skip


def invitation_cases() -> dict[str, Any]:
    """Invitations, their links, and what a device shows for one."""
    _, made, answers = studies()[1]
    study, source = made.study, Recorded("invitations")
    invitation = Invitation.draw(study.id, NOW, source).signed_with(made.identities["owner"])
    invitation.verify(study.admits)
    sent = submission(study, answers, source)
    admission = invitation.admit(sent)
    digests = signed_digests(sent.sealed)
    links = [
        Link("collector.example:8443", study.id),
        Link("[::1]:50051", study.id, invitation),
        Link("https://survey.example", study.id),
        Link("https://survey.example:8443", study.id, invitation),
        Link("http://localhost:8000", study.id, invitation),
    ]
    whole, page = str(links[1]), str(links[3])
    code = links[3].code
    refused = [
        "", "https://example.org", whole[:-10], whole + "AA", whole.replace("/join/", "/joint/"), whole.replace(":50051", ""),
        whole.replace(":50051", ":99999"), whole + "%", whole + "~", page.partition("#")[0], page[:-1], page.replace("/s/", "/t/"),
        page.replace("https://survey.example:8443", "http://survey.example:8443"), page.replace(":8443", ":443"),
        page.replace("/s/a", "/s/b", 1) if "/s/a" in page else page.replace("/s/", "/s/a", 1),
        f"trimask://h:1/join/{base64.urlsafe_b64encode(study.id + bytes(88)).decode().rstrip('=')}",
        f"trimask://h:1/join/{base64.urlsafe_b64encode(study.id + bytes([3]) + invitation.to_bytes()[1:]).decode().rstrip('=')}",
    ]  # fmt: skip
    for text in refused:
        try:
            Link.parse(text)
        except TrimaskError:
            continue
        raise AssertionError(text)
    return {
        "what": "An invitation to the second study of device-studies.json, the links it travels in, and the admission its key signs "
        "for one submission; then links that are refused.",
        "study_id": study.id.hex(),
        "signer": study.admits.hex(),
        "expires_ms": NOW,
        "invitation": invitation.to_bytes().hex(),
        "public_key": invitation.key.public.hex(),
        "invited_message": invited_message(study.id, invitation.key.public, NOW).hex(),
        "submission_id": sent.submission_id.hex(),
        "sealed": [part.hex() for part in sent.sealed],
        "admission_message": admission_message(study.id, sent.submission_id, digests).hex(),
        "admission": admission.to_bytes().hex(),
        "admission_to_withdraw": invitation.admit_withdrawal(sent.submission_id).to_bytes().hex(),
        "code": code,
        "links": [
            {"text": str(link), "address": link.address, "invited": link.invitation is not None}
            for link in links
        ],
        "links_as_pasted": [
            {"text": f"  {whole[:40]}\r\n{whole[40:]} ", "means": whole},
            {"text": page.replace("https://survey", "HTTPS://Survey"), "means": page},
            {"text": f"<{whole}>.", "means": whole},
            {"text": f"“{page}”!", "means": page},
            {"text": f"({page}؟)", "means": page},
            {"text": f"*{page[:90]}\u200b{page[90:120]}\u00ad{page[120:]}\ufeff*", "means": page},
            {"text": f"{page[:90]}%0A{page[90:120]}%E2%80%8B{page[120:]}%20", "means": page},
            {"text": page.replace("#", "?fbclid=IwAR0#"), "means": page},
            {"text": page.replace("#", "%23") + "?utm_source=mail", "means": page},
            {"text": f"{whole}&utm_source=mail", "means": whole},
        ],
        "links_refused": refused,
    }


def submission_cases() -> dict[str, Any]:
    """From answers and randomness to the requests that leave the device."""
    cases = []
    for name, made, answers in studies():
        study, source = made.study, Recorded(f"submission {name}")
        sent = submission(study, answers, source)
        admission, invitation = b"", None
        if study.admission == "invited":
            invitation = Invitation.draw(study.id, NOW, Recorded(f"invited {name}")).signed_with(
                made.identities["owner"]
            )
            admission = invitation.admit(sent).to_bytes()
        requests = [
            SubmitRequest(
                study_id=study.id, submission_id=sent.submission_id, sealed_component=part, invitation=admission,
                sealing_key_id=key_id,
            ).SerializeToString()
            for part, key_id in zip(sent.sealed, sent.key_ids, strict=True)
        ]  # fmt: skip
        cases.append(
            {
                "name": name,
                "study_id": study.id.hex(),
                "answers": answers,
                "randomness": b"".join(source.reads).hex(),
                "invitation": None if invitation is None else invitation.to_bytes().hex(),
                "secrets": [
                    made.sealing[f"R{k}"].secret_bytes().hex() for k in range(1, len(study.right) + 1)
                ],
                "payloads": [
                    made.sealing[f"R{k}"]
                    .open(part, component_info(study.binding, k, sent.submission_id))
                    .hex()
                    for k, part in enumerate(sent.sealed, 1)
                ],
                "submission_id": sent.submission_id.hex(),
                "requests": [request.hex() for request in requests],
            }
        )
    return {
        "what": "Whole submissions to the studies of device-studies.json: answers and all randomness (payloads, withdrawal key, then a "
        "private key of HPKE for each right provider) to the SubmitRequest for each; `payloads` is what each opens, with `secrets`.",
        "cases": cases,
    }


def institution_cases() -> dict[str, Any]:
    """A directory, and what is refused of it."""
    key = SigningKey(Recorded("keeper").seed())
    names = [
        Institution(f"Universität {k}", bytes([k]) * 32, "mail@example.org", "https://example.org")
        for k in (1, 2)
    ]
    signed = Directory("A keeper", key.public, tuple(names)).signed_with(key)
    data = json.loads(signed.to_json())
    refused = []
    for change in (
        {"keeper": "Another"}, {"signature": "00" * 64}, {"keeper_key": "00" * 32}, {"format": "x"},
        {"institutions": [data["institutions"][0]] * 2},
    ):  # fmt: skip
        text = json.dumps(copy.deepcopy(data) | change)
        try:
            Directory.from_json(text)
        except TrimaskError:
            refused.append(text)
        else:
            raise AssertionError(text)
    return {
        "what": "A directory of institutions as it is kept and handed on, and ones that are refused.",
        "directory": signed.to_json(),
        "names": [item.name for item in names],
        "refused": refused,
    }


def documents() -> dict[str, dict[str, Any]]:
    """File names and what is in them."""
    made = {
        "device-json.json": json_cases(),
        "device-studies.json": study_cases(),
        "device-messages.json": message_cases(),
        "device-invitations.json": invitation_cases(),
        "device-submissions.json": submission_cases(),
        "device-institutions.json": institution_cases(),
    }
    return {name: {"what": data.pop("what"), "source": SOURCE, **data} for name, data in made.items()}


def written(document: dict[str, Any]) -> str:
    """As it stands in the file."""
    return json.dumps(document, indent=1) + "\n"


if __name__ == "__main__":
    for file_name, content in documents().items():
        (FOLDER / file_name).write_text(written(content), encoding="utf-8")

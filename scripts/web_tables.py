"""Write what client/web has from Python: messages and refusals from the .proto files and their list, and a form's words.

python scripts/web_tables.py
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from trimask_core.basics.refusals import Reason, Status
from trimask_core.form.texts import SENTENCES
from trimask_proto.v1 import release_pb2, study_pb2, submission_pb2

DEVICE = Path(__file__).parents[1] / "client" / "web" / "device"
# Every message a device sends or reads; those inside them are added.
MESSAGES = (
    submission_pb2.SubmitRequest,
    submission_pb2.SubmitResponse,
    submission_pb2.GetSealingKeysRequest,
    submission_pb2.GetSealingKeysResponse,
    submission_pb2.WithdrawRequest,
    submission_pb2.WithdrawResponse,
    submission_pb2.AskSubmissionRequest,
    submission_pb2.AskSubmissionResponse,
    study_pb2.GetStudyRequest,
    study_pb2.GetStudyResponse,
    release_pb2.GetBudgetRequest,
    release_pb2.GetBudgetResponse,
)
# Of a study's status a device reads whether it is open; what else the answer has is skipped.
PARTS: dict[type, tuple[str, ...]] = {
    study_pb2.GetStudyStatusRequest: ("study_id",),
    study_pb2.GetStudyStatusResponse: ("state",),
}
_TYPES = {
    value: name.removeprefix("TYPE_").lower()
    for name, value in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def _field(field: FieldDescriptor) -> list[object]:
    kind = field.message_type.name if field.message_type is not None else _TYPES[field.type]
    camel = "".join(word.capitalize() if at else word for at, word in enumerate(field.name.split("_")))
    label = (
        ["repeated"]
        if field.is_repeated
        else ["optional"]
        if field.has_presence and field.message_type is None
        else []
    )
    return [field.number, camel, kind, *label]


def _messages() -> dict[str, list[list[object]]]:
    found: dict[str, list[list[object]]] = {}

    def add(descriptor: Descriptor, only: tuple[str, ...] | None = None) -> None:
        fields = [item for item in descriptor.fields if only is None or item.name in only]
        found[descriptor.name] = [_field(item) for item in sorted(fields, key=lambda item: item.number)]
        for item in fields:
            if item.message_type is not None and item.message_type.name not in found:
                add(item.message_type)

    for message in MESSAGES:
        add(message.DESCRIPTOR)
    for message, only in PARTS.items():
        add(message.DESCRIPTOR, only)  # type: ignore[attr-defined]
    return found


def _table(name: str, says: str, lines: list[str]) -> str:
    return "\n".join(
        [
            f"/** {says} */",
            f"export const {name} = /** @type {{const}} */ ({{",
            *(f"  {line}" for line in lines),
            "});",
            "",
        ]
    )


def _filled(rows: Mapping[str, object]) -> list[str]:
    """As many entries a line as it has room for."""
    entries = (f"{key}:{json.dumps(value, separators=(',', ':'))}," for key, value in rows.items())
    return textwrap.wrap(" ".join(entries), 120, break_long_words=False, break_on_hyphens=False)


# No page asks private questions; and a study without approvals is refused by the device itself, which can say that nothing
# was sent: a node that refuses one cannot.
_NOT_ON_A_PAGE = ("no_budget", "unapproved")


def documents() -> dict[str, str]:
    """File names and what is in them."""
    made = "// Made by scripts/web_tables.py; do not edit.\n"
    reasons = {
        str(item): [item.status.name, str(item.retry), None if item.told in _NOT_ON_A_PAGE else item.told]
        for item in sorted(Reason)
        if item.told or item.retry is not item.status.retry  # else its status says the same
    }
    sentences = [f"  {name}: {json.dumps(of, ensure_ascii=False)}," for name, of in SENTENCES.items()]
    statuses = {code.name: str(code.retry) for code in Status}
    return {
        "../form/words.js": made + "\n".join(["export default {", *sentences, "};", ""]),
        "messages.js": made
        + _table(
            "MESSAGES",
            "For each field its number, name, type, and whether it is repeated or optional.",
            [f"{name}: {json.dumps(fields)}," for name, fields in _messages().items()],
        ),
        "refusals.js": made
        + _table(
            "REFUSALS",
            "For each reason that says more than its gRPC status: that, whether to ask again, its texts for a person.",
            _filled(reasons),
        )
        + _table("STATUSES", "What a reason that is not listed means, by its status.", _filled(statuses)),
    }


if __name__ == "__main__":
    for file_name, text in documents().items():
        (DEVICE / file_name).write_text(text, encoding="utf-8")

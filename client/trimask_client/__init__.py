"""The device's client: `Client(study).submit(answers) -> Receipt`, `Queue` for a device that is not always online, and
`Gateway(study).submit_many(rows)` for an institution that has many people's answers."""

from trimask_client.client import Client
from trimask_client.gateway import Gateway
from trimask_client.queue import Queue
from trimask_client.queue_entry import Entry
from trimask_client.records import device_key
from trimask_client.transport import Endpoint, Transport, Unreachable
from trimask_core.study.signed import SignedStudy
from trimask_core.submit.submission import Receipt, SealedSubmission

__all__ = [
    "Client",
    "Endpoint",
    "Entry",
    "Gateway",
    "Queue",
    "Receipt",
    "SealedSubmission",
    "SignedStudy",
    "Transport",
    "Unreachable",
    "device_key",
]

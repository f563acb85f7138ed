"""The device's client: `Client(study).submit(answers) -> Receipt`."""

from trimask_client.client import Client
from trimask_client.transport import Endpoint, Transport, Unreachable
from trimask_core.receipt import Receipt
from trimask_core.study import SignedStudy
from trimask_core.submission import SealedSubmission

__all__ = ["Client", "Endpoint", "Receipt", "SealedSubmission", "SignedStudy", "Transport", "Unreachable"]

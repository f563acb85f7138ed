"""A full disk passes; a mistake does not become one."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from trimask_core.basics.errors import Refused, VerificationError
from trimask_core.basics.refusals import Reason
from trimask_server.runtime.logs import reason_of_failure
from trimask_server.store.interface import StoreError


def _caused(by: Exception) -> StoreError:
    error = StoreError("database or disk is full")
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "no space"), Reason.STORE_UNAVAILABLE),
        (_caused(sqlite3.OperationalError("database or disk is full")), Reason.STORE_UNAVAILABLE),
        (StoreError("INSERT failed (53100)"), Reason.STORE_UNAVAILABLE),
        (StoreError("INSERT failed (23505)"), Reason.INTERNAL_ERROR),
        (_caused(sqlite3.IntegrityError("twice")), Reason.INTERNAL_ERROR),
        (OSError(errno.ENOENT, "no file"), Reason.INTERNAL_ERROR),
        (VerificationError("a value does not fit"), Reason.INTERNAL_ERROR),
        (TypeError("a mistake"), Reason.INTERNAL_ERROR),
        (Refused(Reason.DRAINING, "later"), Reason.DRAINING),
    ],
)
def test_what_passes_is_told_from_what_does_not(error: Exception, reason: Reason) -> None:
    assert reason_of_failure(error) is reason

"""Tells a failing disk or database server from a wrong request: such failures are temporary and refused as that."""

from __future__ import annotations

import errno
import re
import sqlite3

from trimask_core.errors import Refused
from trimask_core.refusals import Reason
from trimask_server.store.interface import StoreError

__all__ = ["reason_of_failure"]

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE}
# PostgreSQL: connection, insufficient resources, operator intervention, system error.
_STATES = re.compile(r"\((08|53|57|58)\w{3}\)")


def reason_of_failure(error: BaseException) -> Reason:
    """`STORE_UNAVAILABLE` for a full disk or an unreachable server; a refusal's own reason; else `INTERNAL_ERROR`."""
    if isinstance(error, Refused) and isinstance(error.reason, Reason):
        return error.reason
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, sqlite3.OperationalError) or (
            isinstance(seen, OSError) and seen.errno in _NO_ROOM
        ):
            return Reason.STORE_UNAVAILABLE
        if isinstance(seen, StoreError) and _STATES.search(str(seen)):
            return Reason.STORE_UNAVAILABLE
        seen = seen.__cause__
    return Reason.INTERNAL_ERROR

"""One submission to every right provider, in rounds, until each has answered for good."""

from __future__ import annotations

from collections.abc import Callable

from trimask_client.transport import Unreachable
from trimask_core.errors import Refused, TrimaskError
from trimask_core.receipt import ProviderReceipt

__all__ = ["try_everywhere"]

_LONGEST_ASKED_MS = 30_000


def try_everywhere(
    upload: Callable[[int], ProviderReceipt],
    providers: int,
    attempts: int,
    pause: Callable[[float, int], None],
) -> tuple[list[ProviderReceipt], list[TrimaskError]]:
    """Receipts and errors, by provider. Nobody is left out because of what another said.

    Those that could not be reached, or asked to be left alone for a while, are tried again together: `pause` is given how
    many seconds were asked for, and which attempt it was.
    """
    receipts: dict[int, ProviderReceipt] = {}
    errors: dict[int, TrimaskError] = {}
    waiting = list(range(1, providers + 1))
    for attempt in range(1, attempts + 1):
        asked_ms = 0
        for k in tuple(waiting):
            try:
                receipts[k] = upload(k)
                errors.pop(k, None)
            except (Unreachable, Refused) as error:
                errors[k] = error
                # A refusal stands unless the provider says when to come again (it is full, or being restarted).
                again = error.retry_after_ms if isinstance(error, Refused) else 0
                if again is not None:
                    asked_ms = max(asked_ms, again)
                    continue
            except TrimaskError as error:
                errors[k] = error
            waiting.remove(k)
        if not waiting or attempt == attempts:
            break
        pause(min(asked_ms, _LONGEST_ASKED_MS) / 1000, attempt)
    if attempts < 1:
        errors[1] = Unreachable("no attempt was made; give attempts >= 1")
    return [receipts[k] for k in sorted(receipts)], [errors[k] for k in sorted(errors)]

"""Sending while the app is closed: a job of Android's JobScheduler, for when there is a network.

Android decides when: soon as a rule, later on a phone that saves power, and not at all after a person has stopped the app
by force. A job survives a restart of the phone. The queue is whole at any moment, and one process sends at a time (its
locks end with the process), so a job may be killed anywhere.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from trimask_client import Queue
from trimask_core.basics.errors import TrimaskError
from trimask_mobile.kiosk.respondents import send_sessions
from trimask_mobile.phone.keystore import AndroidKeyStore, wrapped_device_key

JOB = 0x5E4D
_CLASS = "org.trimask.survey.SendingJob"
_FIRST_PAUSE_MS = 60_000  # then twice that, and so on, up to five hours: Android's own rule
_ANY_NETWORK, _EXPONENTIAL = 1, 1  # JobInfo.NETWORK_TYPE_ANY, JobInfo.BACKOFF_POLICY_EXPONENTIAL
_SUCCESS = 1  # JobScheduler.RESULT_SUCCESS


def has_job() -> bool:
    """Whether the package was built with the job (`android.add_src` and `p4a.hook` in buildozer.spec)."""
    from jnius import autoclass

    try:
        autoclass(_CLASS)
    except Exception:  # noqa: BLE001 - Java raises what it likes
        return False
    return True


def schedule(activity: Any) -> bool:
    """Have what waits sent once there is a network; whether Android has taken it up. Takes the place of an earlier job."""
    from jnius import autoclass

    extras = autoclass("android.os.PersistableBundle")()
    package = activity.getPackageManager().getPackageInfo(activity.getPackageName(), 0)
    extras.putLong("installed", package.lastUpdateTime)
    component = autoclass("android.content.ComponentName")(activity.getPackageName(), _CLASS)
    builder = autoclass("android.app.job.JobInfo$Builder")(JOB, component)
    builder.setRequiredNetworkType(_ANY_NETWORK)
    builder.setBackoffCriteria(_FIRST_PAUSE_MS, _EXPONENTIAL)
    builder.setPersisted(True)
    builder.setExtras(extras)
    return int(_scheduler(activity).schedule(builder.build())) == _SUCCESS


def cancel(activity: Any) -> None:
    """No job any more, and none running: the app is in front, and sends itself."""
    _scheduler(activity).cancel(JOB)


def _scheduler(activity: Any) -> Any:
    from jnius import cast

    return cast("android.app.job.JobScheduler", activity.getSystemService("jobscheduler"))


def send_what_waits(queue: Queue) -> bool:
    """Try all that waits; whether something still does. For a job, which has nobody to tell what went wrong."""
    try:
        queue.send(now=True)
        return queue.next_ms() is not None
    except (TrimaskError, OSError):
        return True


def main() -> None:
    """The job's process: send, say whether to come again, and wait to be ended."""
    from jnius import autoclass

    again = True
    try:
        home = Path(os.environ["ANDROID_PRIVATE"])
        key = wrapped_device_key(home, AndroidKeyStore())
        queue = Queue(home, key)
        again = send_what_waits(queue)
        queue.close()
        again = send_sessions(home, key) or again  # of respondents, in interviewer mode
    finally:
        autoclass(_CLASS).finish(again)
    time.sleep(60)  # were the process to end now, Android would take it for a failure and come again

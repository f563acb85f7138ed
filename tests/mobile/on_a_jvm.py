"""trimask_mobile.phone through pyjnius itself on a JVM, with stand-ins for Android's classes: `CLASSES` is their folder.

What a fake in Python cannot show: which overload is taken, what becomes of byte[], int[], long and String... on the way.
Prints "all held"; started by test_app_java.py.
"""

import os
import tempfile
import time
from pathlib import Path

import jnius_config
import pytest

jnius_config.set_classpath(os.environ["CLASSES"])

from jnius import autoclass  # noqa: E402 - the class path is set before

from trimask_mobile.phone import background, browser  # noqa: E402
from trimask_mobile.phone.documents import Documents  # noqa: E402
from trimask_mobile.phone.insets import bars_over_view, dark_icons  # noqa: E402
from trimask_mobile.phone.keystore import (  # noqa: E402
    AndroidKeyStore,
    KeyStoreError,
    wrapped_device_key,
)

activity = autoclass("org.kivy.android.PythonActivity").mActivity

# The key store: a real cipher, a key made as asked for.
store = autoclass("standin.Store")
store.install()
key = bytes(range(240, 256)) + bytes(range(16))
keystore = AndroidKeyStore()
iv, wrapped = keystore.wrap(key)
assert (len(iv), len(wrapped)) == (12, 48)
assert store.said == "GCM NoPadding 3"
assert keystore.unwrap(iv, wrapped) == key
with pytest.raises(KeyStoreError, match="AEADBadTagException"):
    keystore.unwrap(iv, bytes([wrapped[0] ^ 1]) + wrapped[1:])
home = Path(tempfile.mkdtemp())
assert wrapped_device_key(home, keystore) == wrapped_device_key(home, keystore)
assert [path.name for path in home.iterdir() if path.suffix != ".lock"] == ["device.key.wrapped"]

# System bars, on Android 15 and before 11.
version = autoclass("android.os.Build$VERSION")
assert bars_over_view(activity, 540).padding == (0, 48, 0, 63)  # our window has half of its pixels
version.SDK_INT = 29
assert bars_over_view(activity, 1080).padding == (0, 72, 0, 120)
autoclass("org.libsdl.app.SDLActivity").layout = autoclass("android.view.View")(0, 72, 1080, 2208)
assert bars_over_view(activity, 1080).padding == (0, 0, 0, 0)  # the system has left room itself
version.SDK_INT = 35
dark_icons(activity)
assert autoclass("android.view.WindowInsetsController").appearance == 0x18

# The picker, and what is written where it says.
said: list[tuple[str, str]] = []
listeners = []
documents = Documents(
    activity, lambda on_activity_result: listeners.append(on_activity_result), lambda f: f()
)
documents.save(
    "receipt.json", "{ü}", lambda name: said.append(("saved", name)), lambda why: said.append(("failed", why))
)
intent = activity.started
assert (intent.action, intent.category, intent.type, intent.title) == (
    "android.intent.action.CREATE_DOCUMENT", "android.intent.category.OPENABLE", "application/json", "receipt.json",
)  # fmt: skip
listeners[0](activity.request, -1, intent)
assert said == [("saved", "my receipt.json")]
assert bytes(value & 0xFF for value in activity.resolver.written.toByteArray()).decode() == "{ü}\n"

# A screen reader, and the page in a browser and not in this app again.
assert not browser.reads_aloud(activity)
autoclass("android.view.accessibility.AccessibilityManager").exploring = True
assert browser.reads_aloud(activity)
browser.browse(activity, "https://survey.example/s/abcdefgh#code")
opened = activity.started
assert (opened.action, opened.data.text) == (
    "android.intent.action.VIEW",
    "https://survey.example/s/abcdefgh#code",
)
assert (opened.selector.action, opened.selector.category, opened.selector.data.text) == (
    "android.intent.action.VIEW", "android.intent.category.BROWSABLE", "https:",
)  # fmt: skip

# The job: as it is scheduled, started, finished.
assert background.has_job()
assert background.schedule(activity)
job = autoclass("android.content.Context").SCHEDULER.scheduled
assert (job.id, job.network, job.backoff, job.policy, job.persisted) == (background.JOB, 1, 60_000, 1, True)
assert job.service.name == "org.trimask.survey/org.trimask.survey.SendingJob"
parameters = autoclass("android.app.job.JobParameters")
sending = autoclass("org.trimask.survey.SendingJob")
stale = autoclass("android.os.PersistableBundle")()
assert not sending().onStartJob(parameters(stale))  # of another installation
service = sending()
assert service.onStartJob(parameters(job.extras))
python = autoclass("org.kivy.android.PythonService")
until = time.monotonic() + 30
while python.started is None and time.monotonic() < until:
    time.sleep(0.01)
assert python.started == "/data/user/0/org.trimask.survey/files/app sending.py"
finished = autoclass("android.app.job.JobService")
assert sending().onStartJob(parameters(job.extras))
assert finished.finished  # Python starts once in a process
sending.finish(False)
assert not finished.finished
assert service.onStopJob(parameters(job.extras))
background.cancel(activity)
assert autoclass("android.content.Context").SCHEDULER.scheduled is None
print("all held")

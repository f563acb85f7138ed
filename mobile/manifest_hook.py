"""python-for-android runs this before it assembles a package (`p4a.hook` in buildozer.spec): the job that sends while the
app is closed goes into the manifest. Its own options have no place for a service with a permission.
"""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

ANDROID = "http://schemas.android.com/apk/res/android"
JOB = "org.trimask.survey.SendingJob"


def with_job(manifest: str) -> str:
    """A manifest with the job's service: in a process of its own, and for Android's job scheduler alone to start."""
    ET.register_namespace("android", ANDROID)
    root = ET.fromstring(manifest)  # noqa: S314 - what python-for-android has written just now
    application = root.find("application")
    if application is None:
        raise ValueError(
            "AndroidManifest.xml has no <application>; python-for-android's template has changed"
        )
    name = f"{{{ANDROID}}}name"
    for service in application.findall("service"):
        if service.get(name) == JOB:
            application.remove(service)  # from an earlier run
    ET.SubElement(
        application,
        "service",
        {
            name: JOB,
            f"{{{ANDROID}}}permission": "android.permission.BIND_JOB_SERVICE",
            f"{{{ANDROID}}}exported": "false",
            f"{{{ANDROID}}}process": ":sending",
        },
    )
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def before_apk_assemble(_toolchain: Any) -> None:
    """Called in the folder of the Gradle project; Gradle reads the manifest below src/main."""
    path = Path("src/main/AndroidManifest.xml")
    path.write_text(with_job(path.read_text(encoding="utf-8")), encoding="utf-8")

"""Secrets that would be committed: detect-secrets over what git tracks, against the committed baseline.

A finding that is none (a test vector, a published hash) is put into .secrets.baseline with `--accept`, which a
reviewer then sees in the change.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from detect_secrets import SecretsCollection
from detect_secrets.settings import transient_settings

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / ".secrets.baseline"
# Entropy alone is not looked at: hashes, keys of test vectors and masked values are this project's daily bread.
PLUGINS = [
    {"name": name}
    for name in (
        "ArtifactoryDetector", "AWSKeyDetector", "AzureStorageKeyDetector", "BasicAuthDetector", "GitHubTokenDetector",
        "GitLabTokenDetector", "JwtTokenDetector", "KeywordDetector", "NpmDetector", "OpenAIDetector", "PrivateKeyDetector",
        "PypiTokenDetector", "SendGridDetector", "SlackDetector", "StripeDetector", "TwilioKeyDetector",
    )
]  # fmt: skip
_SKIPPED = {".secrets.baseline"}


def tracked() -> list[str]:
    """What git tracks or would track, relative to the root."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        raise SystemExit("the secret scan looks at what git would commit, and there is no git here")
    command = [git, "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).is_file() and name not in _SKIPPED]


def scan(names: list[str], root: Path = ROOT) -> set[tuple[str, str, str]]:
    """(file, kind, hash of the secret) of everything found."""
    found: set[tuple[str, str, str]] = set()
    with transient_settings(
        {
            "plugins_used": PLUGINS,
            "filters_used": [{"path": "detect_secrets.filters.heuristic.is_templated_secret"}],
        }
    ):
        secrets = SecretsCollection(root=str(root))
        for name in names:
            secrets.scan_file(name)
        for name, secret in secrets:
            found.add((name, secret.type, secret.secret_hash))
    return found


def read_baseline(path: Path = BASELINE) -> set[tuple[str, str, str]]:
    """The findings somebody has looked at."""
    entries: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["accepted"]
    return {(entry["file"], entry["kind"], entry["sha1"]) for entry in entries}


def main() -> int:
    """Exit status 1 if there is a finding the baseline does not have."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--accept", action="store_true", help="write everything found into the baseline")
    chosen = parser.parse_args()
    names = tracked()
    found = scan(names)
    if chosen.accept:
        entries = [{"file": name, "kind": kind, "sha1": digest} for name, kind, digest in sorted(found)]
        BASELINE.write_text(json.dumps({"accepted": entries}, indent=1) + "\n", encoding="utf-8")
        print(f"{len(entries)} findings accepted: look at the change before it is committed")
        return 0
    fresh = sorted(found - read_baseline())
    for name, kind, _ in fresh:
        print(
            f"{name}: {kind}: remove it, or accept it as none with `python scripts/scan_secrets.py --accept`"
        )
    if not fresh:
        print(f"secrets: none new in {len(names)} files")
    return int(bool(fresh))


if __name__ == "__main__":
    sys.exit(main())

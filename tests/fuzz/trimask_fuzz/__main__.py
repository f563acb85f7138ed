"""`make fuzz`: coverage-guided fuzzing of one target (or of all, one after the other), bounded."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from trimask_fuzz.target import Target

__all__ = ["NAMES", "main", "watched", "write_seeds"]

# Named here too: the targets themselves may be imported only where atheris is watching.
NAMES = (
    "signed_study", "study_text", "definition", "node_toml", "manifest", "receipt", "link", "sealed", "component",
    "tagged_component", "slices",
    "moments_study", "moments_share", "moments_question", "moments_ledger", "moments_totals",
)  # fmt: skip


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _target(name: str) -> Target:
    """A target, with what it calls watched by atheris."""
    import atheris

    with atheris.instrument_imports(
        include=["trimask", "trimask_core", "trimask_server", "trimask_theory", "tomllib"]
    ):
        import pytest  # noqa: F401 - repeatable randomness is refused outside of tests

        from trimask_fuzz.targets import TARGETS
    return TARGETS[name]


def _run(target: Target, arguments: list[str]) -> None:
    """This process becomes libFuzzer's; it ends the process itself."""
    import atheris

    atheris.Setup([sys.argv[0], *arguments], target.run)
    atheris.Fuzz()


def watched(name: str) -> None:
    """A target as OSS-Fuzz runs it, with the options and corpus that it gives."""
    _run(_target(name), sys.argv[1:])


def write_seeds(name: str, folder: str) -> None:
    """A target's seeds as files, for OSS-Fuzz."""
    Path(folder).mkdir(parents=True)
    for number, seed in enumerate(_target(name).seeds()):
        (Path(folder) / str(number)).write_bytes(seed)


def _fuzz(name: str, runs: int, seconds: int) -> None:
    target = _target(name)
    with tempfile.TemporaryDirectory(prefix="trimask-fuzz-") as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(target.seeds()):
            (corpus / str(number)).write_bytes(seed)
        words = Path(folder) / "words"
        words.write_text("".join(f'"{_escaped(word[:60])}"\n' for word in target.words))
        options = [
            f"-runs={runs}",
            f"-max_total_time={seconds}",
            "-seed=1",
            "-max_len=16384",
            "-timeout=20",
            f"-artifact_prefix={Path.cwd()}/fuzz-{name}-",
        ]
        if target.words:  # libFuzzer takes no empty dictionary
            options.append(f"-dict={words}")
        _run(target, [*options, str(corpus)])


def main() -> int:
    """Exit status 1 if a parser let an exception out that it does not promise."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--target", help="one target; all of them if not given (TARGET=)")
    parser.add_argument("--runs", type=int, default=100_000, help="inputs for each (RUNS=)")
    parser.add_argument("--seconds", type=int, default=120, help="and at most this long for each")
    chosen = parser.parse_args()
    if chosen.target:
        _fuzz(chosen.target, chosen.runs, chosen.seconds)
        return 0
    failed = []
    for name in NAMES:
        limits = ["--runs", str(chosen.runs), "--seconds", str(chosen.seconds)]
        command = [sys.executable, "-m", "trimask_fuzz", "--target", name, *limits]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = [line for line in done.stderr.splitlines() if line.startswith("Done ")]
        print(f"{name}: {last[-1] if last and not done.returncode else 'FAILED'}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stdout[-3000:] + done.stderr[-3000:], flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

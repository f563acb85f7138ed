"""Regenerate the stubs in client/trimask_proto from the protos; `--to DIR` writes elsewhere, for the test that compares."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent


def generate(destination: Path) -> None:
    """Write messages, type stubs and service stubs for every proto."""
    destination.mkdir(parents=True, exist_ok=True)
    # protoc looks for its plugins on the PATH; they are installed beside this interpreter.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    sources = sorted(str(path.relative_to(HERE)) for path in HERE.glob("trimask_proto/v1/*.proto"))
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={HERE}",
            f"--python_out={destination}",
            f"--grpc_python_out={destination}",
            f"--mypy_out={destination}",
            f"--mypy_grpc_out={destination}",
            *sources,
        ]
    )
    if status:
        sys.exit(status)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=HERE.parent / "client")
    generate(parser.parse_args().to)

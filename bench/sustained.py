"""Minutes of submissions at full speed, durable, beside a bare echo: `python -m bench.sustained --minutes 10`.

Nobody answers at the others, so every row stays pending at R4: its memory must not grow with them. Turns of the two servers
alternate, so that both meet the same machine. Sealing is done before a turn begins and is not in its time.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import echo_server, live_cluster
from bench.load import Timing, drive
from bench.submitting import components
from bench.sustained_plot import draw
from trimask_proto.v1.submission_pb2 import SubmitResponse

__all__ = ["main"]

_PROVIDER = "R4"
_TURN = 20_000
_UNDER_WAY = 128
_ECHO_SHARE = 8  # an echo's turn is so many times shorter


@dataclass(frozen=True)
class _Turn:
    submissions: Timing
    echo: Timing
    rows: int
    resident_mb: float


def _resident_mb(marker: str) -> float:
    """What the node's process holds in memory now, its helpers not counted."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (entry / "cmdline").read_bytes():
                status = (entry / "status").read_text()
                return int(status.partition("VmRSS:")[2].split()[0]) / 1024
        except OSError:
            continue
    return float("nan")


def main(arguments: list[str]) -> None:
    """Run, print a line a turn, and write a JSON summary."""
    parser = argparse.ArgumentParser(prog="python -m bench.sustained", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="of submissions (default: 10)")
    parser.add_argument("--out", type=Path, default=Path("out/sustained.json"))
    parser.add_argument("--plot", type=Path, help="draw rates and memory over the rows pending")
    args = parser.parse_args(arguments)
    answer = SubmitResponse(receive_time_ms=1 << 40, signature=bytes(64)).ByteSize()
    turns: list[_Turn] = []
    with live_cluster() as live:
        signed = live.open(256, 256)
        marker = str(live.folder / _PROVIDER / "node.toml")
        baseline = _resident_mb(marker)
        with echo_server(live, answer):
            target, spent, rows = live.target(signed.study, _PROVIDER), 0.0, 0
            while spent < 60 * args.minutes:
                messages = components(signed, _TURN)
                start = time.perf_counter()
                submissions = drive(target, messages, _UNDER_WAY)
                spent += time.perf_counter() - start
                rows += len(messages)
                echo = drive(live.echo_target(), messages[: _TURN // _ECHO_SHARE], _UNDER_WAY)
                turns.append(_Turn(submissions, echo, rows, _resident_mb(marker)))
                print(_line(turns[-1], spent, baseline), flush=True)
    summary = _summary(turns, spent, baseline)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary | {"turns": len(turns)}))
    if args.plot:
        draw(summary, args.plot)


def _line(turn: _Turn, spent: float, baseline: float) -> str:
    ours, echo = turn.submissions, turn.echo
    return (
        f"{spent:6.0f} s  {turn.rows:9,} rows  {ours.per_second:6.0f}/s  p99 {ours.p99_ms:6.1f} ms  "
        f"echo {echo.per_second:6.0f}/s  p99 {echo.p99_ms:6.1f} ms  ratio {ours.per_second / echo.per_second:.2f}  "
        f"memory {turn.resident_mb - baseline:+.0f} MB"
    )


def _summary(turns: list[_Turn], spent: float, baseline: float) -> dict[str, Any]:
    """Totals over all turns (rates by time, latencies by the middle turn), and each turn."""
    ours = turns[-1].rows / sum(_TURN / turn.submissions.per_second for turn in turns)
    echo = len(turns) / sum(1 / turn.echo.per_second for turn in turns)
    middle = sorted(turn.submissions.p99_ms for turn in turns)[len(turns) // 2]
    return {
        "seconds": spent,
        "rows_pending": turns[-1].rows,
        "accepted_per_second": ours,
        "p99_ms": middle,
        "echo_per_second": echo,
        "echo_p99_ms": sorted(turn.echo.p99_ms for turn in turns)[len(turns) // 2],
        "ratio": ours / echo,
        "memory_above_baseline_mb": max(turn.resident_mb for turn in turns) - baseline,
        "turns": [
            {
                "rows": turn.rows,
                "per_second": turn.submissions.per_second,
                "p99_ms": turn.submissions.p99_ms,
                "echo_per_second": turn.echo.per_second,
                "echo_p99_ms": turn.echo.p99_ms,
                "memory_mb": turn.resident_mb - baseline,
            }
            for turn in turns
        ],
    }


if __name__ == "__main__":
    main(sys.argv[1:])

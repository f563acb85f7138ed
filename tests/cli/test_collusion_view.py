"""The table of `trimask study collusion`."""

from __future__ import annotations

import pytest
from rich.console import Console

from trimask_core.moments.study import MomentsCollusion
from trimask_core.rows.collusion import Topology, default_unmasking, report
from trimask_core.suites import AnyReport
from trimask_terminal.study_view import in_short, render_collusion


def printed(found: AnyReport, width: int = 200) -> str:
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(render_collusion(found))
    return capture.get()


def shown(topology: Topology, width: int = 200) -> str:
    return printed(report(topology), width)


def test_every_coalition_has_its_line() -> None:
    topology = Topology(5, 2, ("R2", "R3", "R4", "R1", "L2"))
    text = shown(topology)
    assert "Who would have to collude" in text
    for coalition in report(topology).coalitions:
        assert f" {' + '.join(coalition.parties)} " in text
    assert "L2 for component 5" in text
    assert text.startswith("No 2 parties together")


def test_a_coalition_says_how() -> None:
    text = shown(Topology(3, 2, ("R2", "R3", "R1")))
    assert "A from X^1 and A X^1 by a linear solve" in text
    assert "X B0 from A X B0, X^1 and A X^3, which are correlated, by aligning them" in text
    assert "A from A1 and A2" in text
    assert "X B0 from X^1 and X^2 by addition" in shown(Topology(2, 2, ("R1", "R2")))
    assert "X B0 from A X B0 and A " in shown(Topology(2, 1, ("R1", "R2")))


@pytest.mark.parametrize("width", [60, 80])
def test_it_fits_a_narrow_console(width: int) -> None:
    text = shown(Topology(4, 2, ("R2", "R3", "R4", "R1")), width)
    assert max(map(len, text.splitlines())) <= width
    assert "R1 + collector" in text


def test_the_moments_suite_has_the_same_table() -> None:
    text = printed(MomentsCollusion(3, 2))
    assert text.startswith("All 3 right providers together could read the answers; nobody else")
    assert "Who would have to collude" in text
    assert " R1 + R2 + R3 " in text
    assert "every answer" in text
    assert "add up to its answers" in text
    assert "as long as 2 right providers add their noise" in text
    assert "Unmasking" not in text
    assert max(map(len, printed(MomentsCollusion(3, 2), 60).splitlines())) <= 60


def ring(right: int, left: int) -> AnyReport:
    return report(Topology(right, left, default_unmasking(right, left)))


def test_repro_the_demo_ends_with_a_few_lines_about_collusion() -> None:
    """Twenty rows of matrix algebra were the last thing a newcomer saw of a demo."""
    lines = in_short(ring(4, 2))
    assert lines[0] == ring(4, 2).summary
    assert lines[1] == (
        "20 groups of 3 could, 3 of them only as estimates: 3 right providers (3), 2 right + 1 left providers (3), "
        "2 right + collector (6), 1 right + 1 left + collector (7), 2 left + collector (1)."
    )
    assert lines[3:] == ["  trimask study collusion --right 4 --left 2"]


def test_few_groups_are_named_and_larger_ones_counted() -> None:
    assert in_short(ring(2, 2))[1] == (
        "3 groups of 2 could: R1 + R2, R1 + collector, R2 + collector. Other groups, all larger: 1."
    )


def test_the_command_lists_the_study_s_own_unmasking() -> None:
    command = "--right 4 --left 2 --unmasking R2 R3 R4 R1"
    assert command in in_short(report(Topology(4, 2, ("R2", "R3", "R4", "R1"))))[-1]
    assert in_short(MomentsCollusion(3, 1))[-1] == "  trimask study collusion --right 3 --left 0"


@pytest.mark.parametrize(("right", "left"), [(2, 1), (3, 2), (4, 2), (5, 3)])
def test_the_short_form_counts_every_group(right: int, left: int) -> None:
    found = ring(right, left)
    least = [item for item in found.coalitions if len(item.parties) == found.largest_safe + 1]
    line = in_short(found)[1]
    assert line.startswith(f"{len(least)} groups of {found.largest_safe + 1} could")
    counts = [int(part.split(")")[0]) for part in line.split("(")[1:]]
    assert sum(counts) == len(least) if counts else line.count(" + ") >= len(least)

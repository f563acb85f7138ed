"""The command line on one page: every command, from the parsers, and the exit statuses.

`python scripts/command_line.py > docs/command-line.md`; tests/cli/test_cli_scripts.py holds the page to the programs.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator

from trimask_terminal.device.program import build_parser as device_parser
from trimask_terminal.exits import Exit
from trimask_terminal.program import build_parser

_PAGE = """# The command line

For whoever types or scripts `trimask` and `trimask-client`. After it you know which commands there are, and what an exit
status says. `--help` after any word says what is below it. Written by `python scripts/command_line.py` from the parsers.

{commands}

Exit statuses:

{statuses}

Every command takes `--json`: one document on stdout (one a line with `study status --watch`), messages on stderr. It is the
answer to a question; or `ok`, `exit`, what was made (`study_id`, `file`, ...) and `said`, the lines printed without it; or
`{{"ok": false, "exit": 3, "error": "..."}}`, with `problems` where there are several. The node programs (`collector`,
`right`, `left`) run until they are stopped; theirs is `log_format = "json"` in `node.toml`.

```sh
trimask --completion bash > ~/.local/share/bash-completion/completions/trimask   # again after an upgrade
trimask --completion zsh > "${{fpath[1]}}/_trimask"                                # zsh, before compinit
trimask --completion fish > ~/.config/fish/completions/trimask.fish
```

`trimask-client` has the same option.
"""


def render_page() -> str:
    """docs/command-line.md."""
    return _PAGE.format(
        commands="\n".join(
            line
            for parser in (build_parser(), device_parser())
            for line in _lines(parser.prog, _commands(parser))
        ),
        statuses="\n".join(f"- {int(item)}: {item.meaning}" for item in Exit),
    )


def _lines(program: str, commands: Iterable[str]) -> Iterator[str]:
    """One line for a program's own commands, and one for each word that has commands below it."""
    groups: dict[str, list[str]] = {}
    for command in commands:
        above, _, name = command.rpartition(" ")
        groups.setdefault(above, []).append(f"`{name}`")
    for above in sorted(groups, key=lambda words: (words != program, words)):
        yield f"- `{above}`: {', '.join(groups[above])}"


def _commands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What is typed for every command that has none below it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                deeper = list(_commands(below))
                # A study stands between `release ask` and its questions: those are arguments, not commands.
                yield from deeper if deeper and all(word.islower() for word in deeper) else [below.prog]


if __name__ == "__main__":
    print(render_page(), end="")

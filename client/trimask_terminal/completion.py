"""Completion of the programs' commands and options in bash, zsh and fish.

Each shell's script asks the program itself (`trimask --complete WORD...`), so it knows whatever is installed; where the
program has nothing to offer, the shell completes files.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["SHELLS", "candidates", "completion_script"]

_BASH = """# {program} completion for bash
_{word}() {{
    local IFS=$'\\n' found
    found=$({program} --complete "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
    COMPREPLY=($(compgen -W "$found" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _{word} {program}
"""
_ZSH = """#compdef {program}
# {program} completion for zsh
_{word}() {{
    local -a found
    found=("${{(@f)$({program} --complete "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    [[ -n "${{found[1]}}" ]] && compadd -- "${{found[@]}}" || _files
}}
if [[ "${{funcstack[1]}}" == "_{word}" ]]; then _{word} "$@"; else compdef _{word} {program}; fi
"""
_FISH = """# {program} completion for fish
function __{word}_complete
    set -l words (commandline -opc) (commandline -ct)
    {program} --complete $words[2..-1] 2>/dev/null
end
complete -c {program} -a '(__{word}_complete)'
"""
_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
SHELLS = tuple(sorted(_SCRIPTS))


def completion_script(program: str, shell: str) -> str:
    """The script that a shell reads to complete words of `trimask` or `trimask-client`."""
    return _SCRIPTS[shell].format(program=program, word=program.replace("-", "_"))


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What the last of these words may become; nothing where a file's name or a free value is wanted."""
    *before, last = words or [""]
    wanted: argparse.Action | None = None
    for word in before:
        if word.startswith("-"):
            wanted = _option(parser, word)
            continue
        if wanted is not None and wanted.nargs != 0:
            wanted = None if wanted.nargs is None else wanted
            continue
        nested = _commands(parser)
        if nested is not None and word in nested:
            parser, wanted = nested[word], None
    if last.startswith("-"):
        return sorted(
            name for action in parser._actions for name in action.option_strings if name.startswith(last)
        )
    if wanted is not None and wanted.nargs != 0:
        return [str(choice) for choice in wanted.choices or () if str(choice).startswith(last)]
    nested = _commands(parser)
    return sorted(name for name in nested or () if name.startswith(last))


def _option(parser: argparse.ArgumentParser, word: str) -> argparse.Action | None:
    return next((action for action in parser._actions if word in action.option_strings), None)


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found: dict[str, argparse.ArgumentParser] = action.choices
            return found
    return None

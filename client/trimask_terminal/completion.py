"""Completion of the program's commands and options in bash, zsh and fish.

Each shell's script asks the program itself (`trimask --complete WORD...`), so it knows whatever is installed; where the
program has nothing to offer, the shell completes files.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

__all__ = ["SCRIPTS", "candidates"]

_BASH = """# trimask completion for bash
_trimask() {
    local IFS=$'\\n' found
    found=$(trimask --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=($(compgen -W "$found" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _trimask trimask
"""
_ZSH = """#compdef trimask
# trimask completion for zsh
_trimask() {
    local -a found
    found=("${(@f)$(trimask --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "${found[1]}" ]] && compadd -- "${found[@]}" || _files
}
if [[ "${funcstack[1]}" == "_trimask" ]]; then _trimask "$@"; else compdef _trimask trimask; fi
"""
_FISH = """# trimask completion for fish
function __trimask_complete
    set -l words (commandline -opc) (commandline -ct)
    trimask --complete $words[2..-1] 2>/dev/null
end
complete -c trimask -a '(__trimask_complete)'
"""
SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


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

# SPDX-License-Identifier: Apache-2.0
"""`kubeloop completion`: prints a script that completes commands, actions, flags and their values in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

_EXAMPLES: Final = """Examples:
  # bash: for this session, or in ~/.bashrc
  source <(kubeloop completion bash)

  # zsh, after compinit in ~/.zshrc
  source <(kubeloop completion zsh)

  # fish
  kubeloop completion fish > ~/.config/fish/completions/kubeloop.fish
"""
# An empty list of candidates leaves the word to the shell, which completes names of files. `words` is taken in zsh.
_BASH: Final = """\
# bash completion for kubeloop
_kubeloop() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" candidates=""
  local line="${{COMP_WORDS[1]}} ${{COMP_WORDS[2]}} "
  if [ "$COMP_CWORD" -eq 1 ]; then
    candidates="{commands}"
  else
    case "$line:$previous" in
{values}
    *) case "$line" in
{words}
      esac ;;
    esac
  fi
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}}
complete -o default -F _kubeloop kubeloop
"""
_ZSH: Final = "# zsh completion for kubeloop\nautoload -U +X bashcompinit && bashcompinit\n"
_FILES: Final = ("FILE", "DIR", "PATH")


class CommandLine(NamedTuple):
    """Command, or command and action, with its parser."""

    words: tuple[str, ...]
    parser: argparse.ArgumentParser

    @property
    def actions(self) -> dict[str, argparse.ArgumentParser]:
        """Actions of a command, by name."""
        nested = (one for one in self.parser._actions if isinstance(one, argparse._SubParsersAction))
        return {name: parser for one in nested for name, parser in one.choices.items()}

    @property
    def flags(self) -> list[argparse.Action]:
        """Flags that the help shows."""
        return [one for one in self.parser._actions if one.option_strings and one.help != argparse.SUPPRESS]

    @property
    def candidates(self) -> list[str]:
        """Actions, values of arguments and long flags."""
        arguments = (one for one in self.parser._actions if not one.option_strings and one.choices)
        values = [str(value) for one in arguments for value in one.choices or ()]
        return [*values, *(text for one in self.flags for text in one.option_strings if text.startswith("--"))]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `completion`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run_completion(options: argparse.Namespace) -> int:
    """Print the script; returns the exit code."""
    lines = list(_command_lines())
    if options.shell == "fish":
        print("\n".join(_fish_lines(lines)))
    else:
        print((_ZSH if options.shell == "zsh" else "") + _bash_script(lines))
    return 0


def _command_lines() -> Iterator[CommandLine]:
    """Yield all actions and commands, an action before its command."""
    from kubeloop.cli.main import COMMANDS, build_parser

    for name in COMMANDS:
        command = CommandLine((name,), build_parser(name))
        for action, parser in command.actions.items():
            yield CommandLine((name, action), parser)
        yield command


def _bash_script(lines: Sequence[CommandLine]) -> str:
    commands = " ".join(line.words[0] for line in lines if len(line.words) == 1)
    values = "\n".join(one for line in lines for one in _bash_values(line))
    words = "\n".join(f'      "{" ".join(one.words)} "*) candidates="{" ".join(one.candidates)}" ;;' for one in lines)
    return _BASH.format(commands=commands, values=values, words=words)


def _bash_values(line: CommandLine) -> Iterator[str]:
    """Yield cases for the words after flags that take a value."""
    start = " ".join(line.words)
    for flag in line.flags:
        if flag.nargs is None and not _is_switch(flag):
            patterns = "|".join(f'"{start} "*:{text}' for text in flag.option_strings)
            yield f'    {patterns}) candidates="{" ".join(map(str, flag.choices or ()))}" ;;'


def _fish_lines(lines: Sequence[CommandLine]) -> Iterator[str]:
    from kubeloop.cli.main import COMMANDS

    yield "# fish completion for kubeloop"
    yield "complete -c kubeloop -f"
    for line in lines:
        if len(line.words) == 1:
            about = COMMANDS[line.words[0]].summary
            yield f"complete -c kubeloop -n __fish_use_subcommand -a {line.words[0]} -d {_fish_quote(about)}"
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in line.words)
        start = f"complete -c kubeloop -n '{seen}'"
        if line.actions:
            unseen = f"{seen}; and not __fish_seen_subcommand_from {' '.join(line.actions)}"
            yield f"complete -c kubeloop -n '{unseen}' -a '{' '.join(line.actions)}'"
        elif values := [word for word in line.candidates if not word.startswith("-")]:
            yield f"{start} -a '{' '.join(values)}'"
        yield from (f"{start} {_fish_flag(flag)}" for flag in line.flags)


def _fish_quote(text: str) -> str:
    """Return a text as one word of fish."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _fish_flag(flag: argparse.Action) -> str:
    from kubeloop.cli.program.parser import metavar_of

    names = " ".join(f"-l {one[2:]}" if one.startswith("--") else f"-s {one[1:]}" for one in flag.option_strings)
    if _is_switch(flag):
        return names
    if flag.choices is not None:
        return f"{names} -x -a '{' '.join(map(str, flag.choices))}'"
    return f"{names} -r -F" if (flag.metavar or metavar_of(flag)) in _FILES else f"{names} -x"


def _is_switch(flag: argparse.Action) -> bool:
    """Return True for a flag that takes no value, or need not."""
    return flag.nargs in (0, "?")

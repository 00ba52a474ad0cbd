# SPDX-License-Identifier: Apache-2.0
"""`kubeloop completion`: prints a script that completes commands, actions and flags in a shell."""

from __future__ import annotations

import argparse
from typing import Final

_EXAMPLES: Final = """Examples:
  # bash: for this session, or in ~/.bashrc
  source <(kubeloop completion bash)

  # zsh, after compinit in ~/.zshrc
  source <(kubeloop completion zsh)

  # fish
  kubeloop completion fish > ~/.config/fish/completions/kubeloop.fish
"""
_BASH: Final = """\
# bash completion for kubeloop
_kubeloop() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  else
    case "${{COMP_WORDS[1]}}" in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _kubeloop kubeloop
"""
_ZSH: Final = "# zsh completion for kubeloop\nautoload -U +X bashcompinit && bashcompinit\n"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the argument of `completion`."""
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")


def run_completion(options: argparse.Namespace) -> int:
    """Print the script; returns the exit code."""
    print(_fish_script() if options.shell == "fish" else (_ZSH if options.shell == "zsh" else "") + _bash_script())
    return 0


def _bash_script() -> str:
    from kubeloop.cli.main import COMMANDS

    cases = "\n".join(f'    {name}) words="{" ".join(_words(name))}" ;;' for name in COMMANDS)
    return _BASH.format(commands=" ".join(COMMANDS), cases=cases)


def _fish_script() -> str:
    from kubeloop.cli.main import COMMANDS

    lines = ["# fish completion for kubeloop", "complete -c kubeloop -f"]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c kubeloop -n __fish_use_subcommand -a {name} -d '{command.summary}'")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for word in _words(name):
            what = f"-l {word.removeprefix('--')}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c kubeloop {seen} {what}")
    return "\n".join(lines)


def _words(command: str) -> list[str]:
    """Return the actions and long flags of a command."""
    from kubeloop.cli.main import build_parser

    words: list[str] = []
    for action in build_parser(command)._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += action.choices
        elif action.help != argparse.SUPPRESS:
            words += [one for one in action.option_strings if one.startswith("--")]
    return words

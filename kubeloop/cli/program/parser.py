# SPDX-License-Identifier: Apache-2.0
"""Argument parser whose errors help: the command's usage, the nearest valid flag or value, and where to read more."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn

_LONGEST_USAGE = 12  # flags that are listed in the usage line; with more, `[flags]` stands for them


_METAVARS: Final = {
    "Path": "FILE",
    "address": "IP",
    "boolean": "BOOL",
    "comma_separated": "A,B",
    "duration": "DURATION",
    "float": "X",
    "int": "N",
    "non_negative_count": "N",
    "port": "PORT",
    "positive_count": "N",
}

_WORDS: Final = {"CONFIG": "FILE", "DIR": "DIR", "FOLDER": "DIR", "KUBECONFIG": "FILE", "PATH": "FILE"}


def metavar_of(flag: argparse.Action) -> str:
    """Return the word for the value of a flag that has none of its own: its type, or the last word of its name."""
    word = flag.dest.upper().rpartition("_")[2]
    return _WORDS.get(word) or _METAVARS.get(getattr(flag.type, "__name__", ""), word)


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formats help texts with short words for values."""

    def _get_default_metavar_for_optional(self, action: argparse.Action) -> str:
        return metavar_of(action)

    def _get_default_metavar_for_positional(self, action: argparse.Action) -> str:
        return action.dest.upper()


class CommandParser(argparse.ArgumentParser):
    """Parser of one command. A wrong flag is answered with the nearest valid one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", _HelpFormatter)
        super().__init__(*args, **kwargs)
        self._positionals.title, self._optionals.title = "Arguments", "Flags"
        self._option_string_actions["-h"].help = "print this help"

    def add_subparsers(self, **kwargs: Any) -> Any:
        """Add the actions of a command, under a title of their own."""
        return super().add_subparsers(**{"title": "Actions", "dest": "action", "metavar": "ACTION", **kwargs})

    def parse_known_args(  # type: ignore[override]  # the library's overloads for other namespaces are not used
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all arguments, also those of an action, or exit with an error about the first unknown one."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown_argument(unknown[0]))
        return options, []

    def error(self, message: str) -> NoReturn:
        """Print the error, the usage and the way to the help; exit with code 2."""
        print(f"error: {message}\n", file=sys.stderr)
        self.print_usage(sys.stderr)
        self.exit(2, f"Run '{self.prog} --help' for all flags.\n")

    def format_usage(self) -> str:
        """Return the usage line; the flags of a large command are summarized."""
        flags = [one for one in self._actions if one.option_strings]
        if len(flags) <= _LONGEST_USAGE:
            return super().format_usage()
        positional = [one.metavar or one.dest for one in self._actions if not one.option_strings]
        return " ".join(("usage:", self.prog, "[flags]", *map(str, positional))) + "\n"

    def format_help(self) -> str:
        """Return the help text, in the order of kubectl and kind: examples come before the flags."""
        from kubeloop.cli.program.flag_groups import group_flags

        group_flags(self.prog.partition(" ")[2], self)
        formatter = self._get_formatter()
        for group in (*(one for one in self._action_groups if one is not self._optionals), self._optionals):
            formatter.start_section(group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        usage = self.format_usage().removeprefix("usage: ").replace("\n       ", "\n  ").rstrip()
        parts = (self.description, f"Usage:\n  {usage}", self.epilog, formatter.format_help())
        return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"

    def _unknown_argument(self, argument: str) -> str:
        if not argument.startswith("-"):
            return f"unexpected argument: {argument}"
        flag = argument.partition("=")[0]
        near = get_close_matches(flag, [text for one in self._actions for text in one.option_strings], n=1)
        return f"unknown flag: {flag}" + (f"; did you mean {near[0]}?" if near else "")

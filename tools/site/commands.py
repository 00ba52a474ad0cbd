# SPDX-License-Identifier: Apache-2.0
"""Reference of all commands and their flags, in Markdown, from the parsers of the program."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from kubeloop.cli.main import COMMANDS, build_parser
from kubeloop.cli.program.parser import metavar_of


def commands_reference() -> str:
    """Return a section for each command, with usage, arguments and flags."""
    sections = [section for name in COMMANDS for section in _sections(f"kubeloop {name}", build_parser(name))]
    return "\n\n".join(sections)


def _sections(title: str, parser: argparse.ArgumentParser, level: int = 2) -> Iterator[str]:
    """Yield the section of a command, then those of its own commands."""
    about = _escape(parser.description or "")
    usage = " ".join(_usage(title, parser))
    parts = [f"{'#' * level} {title}", about, f"```text\n{usage}\n```"]
    if parser.epilog:
        parts.append(f"```bash\n{_examples(parser.epilog)}\n```")
    rows = [_row(action) for action in parser._actions if _is_shown(action)]
    if rows:
        parts.append("\n".join(("| flag or argument | meaning |", "|---|---|", *rows)))
    yield "\n\n".join(filter(None, parts))
    for name, nested in _commands_of(parser).items():
        yield from _sections(f"{title} {name}", nested, level + 1)


def _examples(epilog: str) -> str:
    """Return the lines below `Examples:`, without their indentation."""
    return textwrap.dedent(epilog.partition("\n")[2]).strip("\n")


def _commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _usage(title: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the words of a short usage line: required flags and positional arguments."""
    yield title
    shown = [action for action in parser._actions if _is_shown(action)]
    for action in shown:
        if action.option_strings and action.required:
            yield f"{action.option_strings[-1]} {_value_of(action)}"
    if any(action.option_strings and not action.required for action in shown):
        yield "[flags]"
    for action in shown:
        if not action.option_strings:
            yield _positional(action)
    if _commands_of(parser):
        yield "COMMAND"


def _positional(action: argparse.Action) -> str:
    name = _value_of(action)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}.get(str(action.nargs), name)


def _is_shown(action: argparse.Action) -> bool:
    hidden = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    return not hidden and action.help != argparse.SUPPRESS


def _value_of(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(str(one) for one in action.choices) + "}"
    return metavar_of(action) if action.option_strings else action.dest.upper()


def _row(action: argparse.Action) -> str:
    name = ", ".join(action.option_strings) or _positional(action)
    if action.option_strings and action.nargs != 0:
        name += f" {_value_of(action)}"
    return f"| `{name.replace('|', chr(92) + '|')}` | {_meaning(action)} |"


def _meaning(action: argparse.Action) -> str:
    values = {key: value for key, value in vars(action).items() if value is not None}
    meaning = (action.help or "").replace("%%", "%")
    if "%(" in meaning:
        meaning = (action.help or "") % {**values, "prog": "kubeloop"}
    default = action.default
    if (
        action.option_strings
        and default not in (None, "", False, argparse.SUPPRESS, [], ())
        and "default" not in meaning
    ):
        meaning += f" (default: {default})"
    return _escape(meaning.strip().replace(str(Path.home()), "~"))


def _escape(text: str) -> str:
    """Return text that Markdown shows as it is, within a row of a table too."""
    flat = " ".join(text.split())
    for character in "\\|<>*_[]":
        flat = flat.replace(character, f"\\{character}")
    return flat

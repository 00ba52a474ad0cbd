# SPDX-License-Identifier: Apache-2.0
"""Simulated behavior of a command line: duration, output and exit code.

`true`, `false`, `exit N`, `sleep N`, `echo …` and shells that run them are supported. Any other command is assumed to
run forever, unless a shell script continues with `exit` after it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

SHELLS = frozenset({"sh", "bash", "ash", "dash", "zsh"})
_OPERATORS = ";&|\n"
_EITHER = ("&&", "||")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LOOPS = re.compile(r"(?:^|[;\n&|]\s*)(?:while|until|for|case|if)\b")
_SILENT = frozenset({"set", "cd", "export", "mkdir", "touch", "trap", "umask", ":", "test", "[", "exec"})


ScriptStep = tuple[str, list[str]]  # operator before a command, and its words
OutputLine = tuple[float, str]  # seconds after the start, and the text


class CommandBehavior(msgspec.Struct, frozen=True):
    """Behavior of a process; without seconds it runs until it is stopped."""

    seconds: float | None = None
    exit_code: int = 0
    lines: tuple[OutputLine, ...] = ()
    files: tuple[tuple[str, str], ...] = ()  # paths with their content


ENDLESS = CommandBehavior()


def command_behavior(command: Sequence[str]) -> CommandBehavior:
    """Return the behavior of a container's command and arguments."""
    if not command:
        return ENDLESS
    program, *arguments = command
    name = program.rpartition("/")[2]
    if name in SHELLS:
        return _shell(arguments)
    return _program_behavior(name, arguments) or ENDLESS


def _shell(arguments: Sequence[str]) -> CommandBehavior:
    """Return the behavior of a shell with -c and a script; any other shell waits for input."""
    for index, argument in enumerate(arguments):
        if argument.startswith("-") and argument.endswith("c") and index + 1 < len(arguments):
            return _script(arguments[index + 1])
        if not argument.startswith(("-", "+")):
            break
    return ENDLESS


def _script(text: str) -> CommandBehavior:
    """Return the behavior of commands in sequence, as far as their operators permit."""
    if _LOOPS.search(text):
        return ENDLESS
    done = CommandBehavior(0.0)
    steps = parse_script(text)
    for index, (operator, words) in enumerate(steps):
        if operator in _EITHER and (operator == "&&") != (done.exit_code == 0):
            continue
        if words[0] == "exit":
            return msgspec.structs.replace(done, exit_code=_number(words[1:], done.exit_code))
        exits_later = any(later[0] == "exit" for _, later in steps[index + 1 :])
        done = _in_sequence(done, _step_behavior(words) or (CommandBehavior(0.0) if exits_later else ENDLESS))
        if done.seconds is None:
            break
    return done


def parse_script(text: str) -> list[ScriptStep]:
    """Return the commands of a script, each with the operator before it."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace = " \t\r"
    reader.whitespace_split = True
    steps: list[ScriptStep] = []
    operator, words = ";", list[str]()
    try:
        for token in reader:
            if set(token) <= set(_OPERATORS):
                if words:
                    steps.append((operator, words))
                operator, words = token, []
            else:
                words.append(token)
    except ValueError:  # unbalanced quotes
        return [(";", text.split())]
    return [*steps, (operator, words)] if words else steps


def _in_sequence(first: CommandBehavior, second: CommandBehavior) -> CommandBehavior:
    """Return the behavior of two processes in sequence."""
    begin = first.seconds or 0.0
    lines = (*first.lines, *((begin + at, text) for at, text in second.lines))
    seconds = None if second.seconds is None else begin + second.seconds
    return CommandBehavior(seconds, second.exit_code, lines, (*first.files, *second.files))


def _step_behavior(words: Sequence[str]) -> CommandBehavior | None:
    if (target := _redirection(words)) is not None:
        begin, path = target
        course = _step_behavior(words[:begin]) if begin else CommandBehavior(0.0)
        if course is None:
            return None
        text = "".join(f"{line}\n" for _, line in course.lines)
        return msgspec.structs.replace(course, lines=(), files=(*course.files, (path, text)))
    if words[0] == "exec":
        return command_behavior(words[1:])
    if words[0] in _SILENT:
        return CommandBehavior(0.0)
    name = words[0].rpartition("/")[2]
    return _shell(words[1:]) if name in SHELLS else _program_behavior(name, words[1:])


def _redirection(words: Sequence[str]) -> tuple[int, str] | None:
    """Return the index of an output redirection and its path, or None."""
    if len(words) > 1 and words[-2] in (">", ">>", "1>"):
        return len(words) - 2, words[-1]
    if words and words[-1].startswith(">") and words[-1].strip(">"):
        return len(words) - 1, words[-1].lstrip(">")
    return None


def _program_behavior(name: str, arguments: Sequence[str]) -> CommandBehavior | None:
    """Return the behavior of a well-known program; None for any other."""
    if name == "true":
        return CommandBehavior(0.0)
    if name == "false":
        return CommandBehavior(0.0, 1)
    if name == "sleep":
        return _sleep(arguments)
    if name in ("echo", "printf"):
        words = [word for word in arguments if word not in ("-n", "-e")]
        return CommandBehavior(0.0, 0, ((0.0, " ".join(words)),))
    return None


def _sleep(arguments: Sequence[str]) -> CommandBehavior:
    if not arguments:
        return CommandBehavior(0.0, 1, ((0.0, "sleep: missing operand"),))
    total = 0.0
    for argument in arguments:
        if argument in ("infinity", "inf"):
            return ENDLESS
        unit = _UNITS.get(argument[-1:], 0.0)
        try:
            total += float(argument[:-1]) * unit if unit else float(argument)
        except ValueError:
            return CommandBehavior(0.0, 1, ((0.0, f"sleep: invalid time interval '{argument}'"),))
    return CommandBehavior(total)


def _number(words: Sequence[str], otherwise: int) -> int:
    return int(words[0]) % 256 if words and words[0].isdigit() else otherwise

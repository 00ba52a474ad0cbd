# SPDX-License-Identifier: Apache-2.0
"""Output of commands: text for people, or with `-o` JSON, YAML or names for programs, as kubectl has them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Final

import msgspec

JSON: Final = "json"
YAML: Final = "yaml"
NAME: Final = "name"
_INDENT: Final = 4  # kubectl's


def add_output_flag(parser: argparse.ArgumentParser, *more: str) -> None:
    """Add `-o/--output` with json, yaml and further formats; its value is empty for text."""
    formats = (JSON, YAML, *more)
    shown = f"{', '.join(formats[:-1])} or {formats[-1]}"
    parser.add_argument(
        "-o",
        "--output",
        choices=formats,
        default="",
        metavar="FORMAT",
        help=f"output format for programs: {shown} (default: text)",
    )


def format_document(document: Any, output: str) -> str:
    """Return a document as indented JSON or as YAML, without a line break at the end."""
    if output == YAML:
        return msgspec.yaml.encode(document).decode().rstrip("\n")
    return msgspec.json.format(msgspec.json.encode(document), indent=_INDENT).decode()


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


class ActionResult(msgspec.Struct, frozen=True):
    """Object that a command changed, and how."""

    kind: str
    name: str
    result: str


class ResultPrinter:
    """Prints what a command did to objects: line by line as text or names, or as one document at the end."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._results: list[ActionResult] = []

    def report(self, kind: str, name: str, result: str, text: str = "") -> None:
        """Report the change of an object: `node/n1 cordoned`, or another text."""
        if self._output in (JSON, YAML):
            self._results.append(ActionResult(kind, name, result))
        elif self._output == NAME:
            print(f"{kind}/{name}", flush=True)
        else:
            print(text or f"{kind}/{name} {result}", flush=True)

    def close(self) -> None:
        """Print the document, if one was asked for."""
        if self._output in (JSON, YAML):
            print(format_document({"results": self._results}, self._output), flush=True)

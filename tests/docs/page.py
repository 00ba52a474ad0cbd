# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks of a page in order, in a folder of the page's own.

- A block with a title is written to the file of that name.
- ```console: lines with `$ ` are commands, and the lines below are their output, in which `...` stands for any text.
  `kubeloop up` runs until the page ends, in memory and on free ports; so does a command that ends with `&`.
- ```python without a title is a program or, if it has a test, a test.
- `<!-- not run: reason -->` before a block keeps it from being run.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.plane import Plane, environment

_BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<reason>[^\n]+) -->\n)?"
    r"```(?P<language>console|python|yaml)(?P<about>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_TITLE = re.compile(r'title="([^"]+)"')
_UP = re.compile(r"(kubeloop|make) up\b")
# Flags of `kubeloop up` that keep it from the state and the ports of the user.
_ISOLATED = ("--ephemeral",)


@dataclass(frozen=True, slots=True)
class Block:
    """Code block of a page."""

    language: str
    title: str
    text: str
    reason: str  # why it is not run; empty if it is

    @property
    def is_runnable(self) -> bool:
        return not self.reason and (self.language != "yaml" or bool(self.title))


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    found = []
    for match in _BLOCK.finditer(page.read_text()):
        title = _TITLE.search(match["about"])
        found.append(Block(match["language"], title[1] if title else "", match["text"], match["reason"] or ""))
    return found


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", " ").partition("\n")
        yield command.strip(), shown.strip()


def is_shown(expected: str, output: str) -> bool:
    """Return True if an output is as shown: `...` is any text, and spaces may differ in number."""
    wanted = ".*?".join(
        r"\s+".join(re.escape(word) for word in part.split()) if part.split() else "" for part in expected.split("...")
    )
    spaced = re.sub(r"(?<=\S)\.\*\?|\.\*\?(?=\S)", lambda match: r"\s*.*?\s*", wanted)
    return re.fullmatch(spaced, output.strip(), re.DOTALL) is not None


class PageRun:
    """Folder, plane and background programs of one page."""

    shell: tuple[str, ...] = ("bash", "-c")

    def __init__(self, folder: Path, cleanup: ExitStack) -> None:
        self.folder = folder
        self._cleanup = cleanup
        self.environment = {
            **environment(),
            "HOME": str(folder),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, block: Block) -> None:
        """Run one block."""
        if block.title:
            (self.folder / block.title).write_text(block.text)
        elif block.language == "console":
            for command, shown in commands_of(block.text):
                self._command(command, shown)
        elif "def test_" in block.text:
            (self.folder / "test_block.py").write_text(block.text)
            self._command("pytest -q test_block.py", "...passed...")
        else:
            (self.folder / "block.py").write_text(block.text)
            self._command("python block.py", "...")

    def _command(self, command: str, shown: str) -> None:
        if command.startswith("export KUBECONFIG="):
            return
        if _UP.match(command):
            self.start_plane(command, shown)
        elif command.endswith("&"):
            self._start_program(command.rstrip("& "))
        else:
            output = self._output(command)
            assert is_shown(shown, output), f"$ {command}\n{output}\nis not as shown:\n{shown}"

    def _output(self, command: str) -> str:
        done = subprocess.run(
            [*self.shell, command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=GIVE_UP_SECONDS,
        )
        return done.stdout

    def start_plane(self, command: str, shown: str) -> None:
        """Start the plane of a `kubeloop up`, which the further commands use."""
        flags = [flag for flag in shlex.split(command)[2:] if flag not in _ISOLATED]
        plane = Plane(self.folder / "plane", *_ISOLATED, *flags)
        line = plane.start()
        self._cleanup.callback(plane.close)
        self.environment["KUBECONFIG"] = str(plane.kubeconfig)
        assert is_shown(shown, line) or not shown, line

    def _start_program(self, command: str) -> None:
        with (self.folder / "program.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )
        self._cleanup.callback(process.wait, GIVE_UP_SECONDS)
        self._cleanup.callback(process.terminate)


def run_page(page: Path, folder: Path) -> int:
    """Run all blocks of a page that are to be run; returns their number."""
    blocks = [block for block in blocks_of(page) if block.is_runnable]
    with ExitStack() as cleanup:
        run = PageRun(folder, cleanup)
        for block in blocks:
            run.run(block)
    return len(blocks)

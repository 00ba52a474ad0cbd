# SPDX-License-Identifier: Apache-2.0
"""Calling the kubectl that is on the PATH, whichever its version."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.plane import GIVE_UP_SECONDS, environment

WAIT = f"--timeout={GIVE_UP_SECONDS:.0f}s"


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """Result of a kubectl command."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the administrator's kubeconfig, in one namespace."""

    kubeconfig: Path
    namespace: str
    home: Path

    def run(self, *arguments: str, stdin: str | None = None, **variables: str) -> CompletedRun:
        """Run it to its end, whatever that is."""
        done = subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=2 * GIVE_UP_SECONDS,
            env={**self.environment(), **variables},
            check=False,
        )
        return CompletedRun(done.returncode, done.stdout, done.stderr)

    def command(self, *arguments: str) -> list[str]:
        return ["kubectl", f"--namespace={self.namespace}", *arguments]

    def environment(self) -> dict[str, str]:
        return {**environment(), "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)}

    def __call__(self, *arguments: str, stdin: str | None = None, **variables: str) -> str:
        """Return the output of a successful command."""
        said = self.run(*arguments, stdin=stdin, **variables)
        assert said.code == 0, f"kubectl {' '.join(arguments)}: {said.err}{said.out}"
        return said.out

    def fails(self, *arguments: str, stdin: str | None = None) -> str:
        """Return the error output of a failed command."""
        said = self.run(*arguments, stdin=stdin)
        assert said.code != 0, f"kubectl {' '.join(arguments)} succeeded: {said.out}"
        return said.err

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        return json.loads(self(*arguments, "-o", "json", stdin=stdin))

    def apply(self, *documents: Any) -> str:
        return self("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))

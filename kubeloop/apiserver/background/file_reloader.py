# SPDX-License-Identifier: Apache-2.0
"""Reloads files: compares their content periodically, and applies a changed one.

PeriodicJob ─▶ FileReloader.check ─▶ content changed? ─▶ apply (may be awaited) ─▶ applied, rejected, or tried again

There is one mechanism for certificates, authorities and configuration files.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0

Contents = tuple[bytes, ...]


class RetryReload(Exception):
    """Raised by `apply` if the same content may be usable later: it is applied again at the next check."""


class FileReloader:
    """Reloader of one file, or of several that belong together, such as a certificate and its key.

    `apply` gets the contents; it raises ValueError or OSError to reject them for good.
    """

    def __init__(self, what: str, paths: Sequence[Path], apply: Callable[[Contents], Awaitable[None] | None]) -> None:
        self._what = what
        self._paths = tuple(paths)
        self._apply = apply
        self._applied = self._read()
        self._running: asyncio.Future[None] | None = None

    def check(self) -> None:
        """Apply the files if they have changed; a missing file, as while it is replaced, is no change."""
        if self._running is not None:
            return
        contents = self._read()
        if contents is None or contents == self._applied:
            return
        waiting: Awaitable[None] | None = None
        problem: BaseException | None = None
        try:
            waiting = self._apply(contents)
        except (RetryReload, ValueError, OSError) as error:
            problem = error
        if waiting is None:
            self._conclude(contents, problem)
        else:
            self._running = asyncio.ensure_future(waiting)
            self._running.add_done_callback(partial(self._finish, contents))

    def close(self) -> None:
        """Cancel a reload that is under way."""
        if self._running is not None:
            self._running.cancel()

    async def wait_applied(self) -> None:
        """Wait for a reload that is under way."""
        if self._running is not None:
            await asyncio.wait([self._running])

    def _finish(self, contents: Contents, done: asyncio.Future[None]) -> None:
        self._running = None
        if not done.cancelled():
            self._conclude(contents, done.exception())

    def _conclude(self, contents: Contents, problem: BaseException | None) -> None:
        if isinstance(problem, RetryReload):
            log.warning("reloading the %s is tried again: %s", self._what, problem)
            return
        self._applied = contents
        if problem is None:
            log.info("reloaded the %s", self._what)
        else:
            log.error("the %s stays as it was: %s", self._what, problem)

    def _read(self) -> Contents | None:
        try:
            contents = tuple(path.read_bytes() for path in self._paths)
        except OSError:
            return None
        return contents if all(contents) else None

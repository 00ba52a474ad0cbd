# SPDX-License-Identifier: Apache-2.0
"""Simulated run of a container: planned at its start, changed only by stopping or resizing it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from kubeloop.api.generated.core_v1 import Container, ResourceRequirements
from kubeloop.kubelet.runtime import ContainerRun, EnvSourceValues
from kubeloop.kubelet.simulated.files import InMemoryFiles
from kubeloop.kubelet.simulated.hooks import HookBehavior
from kubeloop.kubelet.simulated.script import Script
from kubeloop.kubelet.simulated.shell import CommandBehavior, OutputLine, command_behavior
from kubeloop.kubelet.sync.termination import MIN_GRACE_PERIOD_SECONDS

KILLED_EXIT_CODE = 137
_MESSAGE_PATH = "/dev/termination-log"
# Limits of the termination message, and of the end of the log in its place.
_LONGEST_MESSAGE, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048

LogEntry = tuple[datetime, str]  # time and text of a log line


class SimulatedProcess:
    """Run of a container; observed at a moment by `observe`."""

    __slots__ = (
        "_broken_hooks",
        "_changed",
        "_ends_at",
        "_exit_code",
        "_files",
        "_hook_failure",
        "_hook_until",
        "_message",
        "_reason",
        "_resized_at",
        "_stop_hook",
        "_stop_hook_until",
        "_stopping",
        "_warned",
        "attempt",
        "container",
        "created_at",
        "env_source_values",
        "id",
        "image_id",
        "is_in_current_sandbox",
        "is_reset",
        "lines",
        "resources",
        "script",
        "starts_at",
    )

    def __init__(
        self,
        container: Container,
        attempt: int,
        id: str,
        image_id: str,
        created_at: datetime,
        env_source_values: EnvSourceValues | None,
    ) -> None:
        self.container = container
        self.attempt = attempt
        self.id = id
        self.image_id = image_id
        self.created_at = self.starts_at = created_at
        self.script: Script | None = None
        self.env_source_values = env_source_values  # values of ConfigMaps and Secrets for its environment
        self._files: InMemoryFiles | None = None  # created on first access
        self.lines: tuple[OutputLine, ...] = ()
        self.is_in_current_sandbox = True
        self.is_reset = False
        self._changed: asyncio.Event | None = None  # exists while a task waits
        self._ends_at: datetime | None = None
        self._exit_code = 0
        self._reason = ""
        self._stopping = False
        self._warned = False  # its preStop hook was started before the stop
        self._stop_hook: HookBehavior | None = None
        self._stop_hook_until: datetime | None = None
        self._broken_hooks = 0  # preStop hooks aborted because another one was started
        self._message = ""
        self._hook_until: datetime | None = None  # end of its postStart hook, if it has one
        self._hook_failure = ""
        self.resources = container.resources
        self._resized_at: datetime | None = None  # when the resize takes effect

    @property
    def files(self) -> InMemoryFiles:
        """Files of the container, which last until it is restarted."""
        if self._files is None:
            self._files = InMemoryFiles()
        return self._files

    def adopt(self, resources: ResourceRequirements | None) -> None:
        """Continue a run that began in another process, with the resources that it has."""
        self.starts_at = self.created_at
        if resources is not None:
            self.resources = resources

    def leave_sandbox(self) -> None:
        """Detach the run from the current sandbox."""
        self.is_in_current_sandbox = False

    def mark_reset(self) -> None:
        """Count the run as an attempt only."""
        self.is_reset = True

    def resize(self, container: Container, now: datetime) -> None:
        """Change the resources after the delay of the script."""
        delay = (self.script.seconds("resize-delay") if self.script is not None else None) or 0.0
        self.container = container
        self._resized_at = now + timedelta(seconds=delay)

    def plan(self, script: Script | None) -> None:
        """Plan the run by the command and the script, if there is one."""
        course = command_behavior((*self.container.command, *self.container.args))
        if script is not None:
            course = _apply_script(course, script)
            self.starts_at = self.created_at + timedelta(seconds=script.seconds("start-delay") or 0.0)
            self._reason = script.text("exit-reason")
        self.script = script
        self.lines = course.lines
        self._exit_code = course.exit_code
        path = self.container.termination_message_path or _MESSAGE_PATH
        self._message = (script.text("termination-message") if script is not None else "") or "".join(
            text for where, text in course.files if where == path
        )
        if course.seconds is not None:
            self._ends_at = self.starts_at + timedelta(seconds=course.seconds)

    def start_post_start_hook(self, hook: HookBehavior) -> None:
        """Start the postStart hook; the run counts as running once it is over, and the hook may fail."""
        self._hook_until = self.starts_at + timedelta(seconds=hook.seconds)
        self._hook_failure = hook.failure

    def exit_at(self, at: datetime, exit_code: int, reason: str = "") -> None:
        """Exit at a time, unless the run exits earlier."""
        if self._ends_at is None or at < self._ends_at:
            self._ends_at, self._exit_code, self._reason = at, exit_code, reason
            if self._changed is not None:
                self._changed.set()

    def start_pre_stop_hook(self, now: datetime, hook: HookBehavior) -> None:
        """Start the preStop hook before the stop."""
        self._warned = True
        self._begin_stop_hook(now, hook)

    def stop(self, now: datetime, hook: HookBehavior | None, grace: float) -> None:
        """Stop the run: the hook may take the whole grace period, then the process has the rest or a minimum.

        Of the hook's duration only whole seconds are subtracted.
        """
        script = self.script
        if hook is not None and not self._warned:
            self._begin_stop_hook(now, hook)
        until = self._stop_hook_until
        hooked = min(max((until - now).total_seconds(), 0.0), grace) if until is not None else 0.0
        left = max(grace - int(hooked), MIN_GRACE_PERIOD_SECONDS)
        delay = (script.seconds("stop-delay") or 0.0) if script is not None else 0.0
        code = (script.number("stop-code") if script is not None else None) or 0
        self._stopping = True
        if delay > left:
            self.exit_at(now + timedelta(seconds=hooked + left), KILLED_EXIT_CODE)
        else:
            self.exit_at(now + timedelta(seconds=hooked + delay), code)

    def _begin_stop_hook(self, now: datetime, hook: HookBehavior) -> None:
        if self._stop_hook_until is not None and self._stop_hook_until > now:
            self._broken_hooks += 1
        self._stop_hook, self._stop_hook_until = hook, now + timedelta(seconds=hook.seconds)

    def _failed_stop_hooks(self, now: datetime) -> int:
        hook, until, ends = self._stop_hook, self._stop_hook_until, self._ends_at
        if hook is None or until is None:
            return 0
        ran_to_its_end = until <= now and (ends is None or until <= ends)
        lost_its_container = hook.needs_container and ends is not None and ends < until and ends <= now
        fails = lost_its_container or (ran_to_its_end and bool(hook.failure))
        return self._broken_hooks + fails

    def next_change_after(self, now: datetime) -> datetime | None:
        """Return the time of the next change, or None."""
        if self.starts_at > now:
            return self.starts_at
        if self._hook_until is not None and self._hook_until > now:
            return min(self._hook_until, self._ends_at or self._hook_until)
        if self._resized_at is None and self._stop_hook is None:
            return self._ends_at if self._ends_at is not None and self._ends_at > now else None
        moments = (self._ends_at, self._resized_at, self._stop_hook_until)
        return min((one for one in moments if one is not None and one > now), default=None)

    def is_alive(self, now: datetime) -> bool:
        """Return True if the run has not exited."""
        return self._ends_at is None or self._ends_at > now

    def log_entries(self, now: datetime, otherwise: str) -> list[LogEntry]:
        """Return the log entries written by now; `otherwise` is the line of a run without known output."""
        until = now if self._ends_at is None else min(now, self._ends_at)
        return [one for one in self._entries(otherwise) if one[0] <= until]

    async def wait_change(self, now: datetime) -> None:
        """Wait until the run exits, writes output, or its exit time changes."""
        due = [moment for moment, _ in self._entries("") if moment > now]
        if self._ends_at is not None:
            due.append(self._ends_at)
        seconds = max((min(due) - now).total_seconds(), 0.0) if due else None
        changed = self._changed = self._changed or asyncio.Event()
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return
        self._changed = None

    def _termination_message(self) -> str:
        """Return the termination message: of its file, or the end of the log under FallbackToLogsOnError."""
        if self._message:
            return self._message[:_LONGEST_MESSAGE]
        wanted = self.container.termination_message_policy == "FallbackToLogsOnError"
        if self._ends_at is None or self._exit_code == 0 or not wanted:
            return ""
        lines = [text for moment, text in self._entries("") if moment <= self._ends_at and text]
        return "".join(f"{text}\n" for text in lines[-_LOG_LINES:])[-_LOG_BYTES:]

    def _entries(self, otherwise: str) -> list[LogEntry]:
        lines = self.lines or ((0.0, otherwise),)
        return [(self.starts_at + timedelta(seconds=at), text) for at, text in lines]

    def observe(self, now: datetime) -> ContainerRun:
        """Return the run as observed at a moment."""
        if self._resized_at is not None and self._resized_at <= now:
            self.resources, self._resized_at = self.container.resources, None
        over = self._ends_at is not None and self._ends_at <= now
        begun = self.starts_at <= now and (self._ends_at is None or self.starts_at <= self._ends_at)
        hooked = self._hook_until is not None and self._hook_until > now
        return ContainerRun(
            container=self.container.name,
            id=self.id,
            attempt=self.attempt,
            image=self.container.image,
            image_id=self.image_id,
            state="exited" if over else "running" if begun and not hooked else "created",
            created_at=self.created_at,
            started_at=self.starts_at if begun else None,
            finished_at=self._ends_at if over else None,
            exit_code=self._exit_code if over else 0,
            reason=self._reason if over else "",
            message=self._termination_message() if over else "",
            is_stopping=self._stopping,
            is_pre_stop_started=self._warned,
            failed_stop_hooks=self._failed_stop_hooks(now) if self._stop_hook is not None else 0,
            resources=self.resources,
            is_resizing=self._resized_at is not None,
            hook_failure="" if hooked else self._hook_failure,
            is_in_current_sandbox=self.is_in_current_sandbox,
            is_reset=self.is_reset,
        )


def _apply_script(course: CommandBehavior, script: Script) -> CommandBehavior:
    """Return the behavior with the changes of a script."""
    seconds, code = script.seconds("exit-after"), script.number("exit-code")
    lines = course.lines
    if text := script.text("log"):
        lines = (*((0.0, line) for line in text.splitlines()), *lines)
    if seconds is None and code is None:
        return msgspec.structs.replace(course, lines=lines)
    if seconds is None:
        seconds = course.seconds or 0.0
    return CommandBehavior(seconds, course.exit_code if code is None else code, lines, course.files)

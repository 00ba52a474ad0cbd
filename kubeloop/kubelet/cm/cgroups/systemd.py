# SPDX-License-Identifier: Apache-2.0
"""Slices of systemd, created and changed over D-Bus by systemd's own `busctl`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kubeloop.exec import run_command
from kubeloop.kubelet.cm.cgroups.hierarchy import CgroupError
from kubeloop.kubelet.cm.cgroups.resource_config import ResourceConfig, shares_to_weight

_RUNNING = Path("/run/systemd/system")
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_SECONDS = 30.0
_MICRO = 1_000_000
_NO_LIMIT = str((1 << 64) - 1)
_ROUND_MICROSECONDS = 10_000  # systemd keeps quotas of a second in steps of 10 ms

Property = tuple[str, ...]  # name, signature, values


class SystemdSlices:
    """Slices of the system manager; `version` is that of the control groups."""

    def __init__(self, version: int, program: str = "busctl", running: Path = _RUNNING) -> None:
        self._version = version
        self._program = program
        self._running = running

    def check(self) -> None:
        """Raise `CgroupError` if systemd does not run on this machine."""
        if not self._running.is_dir():
            raise CgroupError("systemd not running on this host, cannot use systemd cgroups manager")

    async def start(self, unit: str, parent: str, config: ResourceConfig) -> None:
        """Start a slice with its limits; an existing one keeps running."""
        accounting = ("CPUAccounting", "MemoryAccounting", "TasksAccounting")
        properties: list[Property] = [
            ("Description", "s", f"control group {unit}"),
            ("Wants", "as", "1", parent),
            ("DefaultDependencies", "b", "false"),
            *((name, "b", "true") for name in accounting),
            *self._limits(config),
        ]
        words = [word for one in properties for word in one]
        await self._call("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "replace", str(len(properties)), *words, "0")

    async def set_limits(self, unit: str, config: ResourceConfig) -> None:
        """Change the limits of a slice until the next start of the machine."""
        if properties := list(self._limits(config)):
            words = [word for one in properties for word in one]
            await self._call("SetUnitProperties", "sba(sv)", unit, "true", str(len(properties)), *words)

    async def stop(self, unit: str) -> None:
        """Stop a slice."""
        await self._call("StopUnit", "ss", unit, "replace")

    def _limits(self, config: ResourceConfig) -> Iterator[Property]:
        is_unified = self._version == 2
        if config.memory:
            yield (
                "MemoryMax" if is_unified else "MemoryLimit",
                "t",
                _NO_LIMIT if config.memory < 0 else str(config.memory),
            )
        if config.cpu_shares is not None:
            shares = config.cpu_shares
            yield ("CPUWeight", "t", str(shares_to_weight(shares))) if is_unified else ("CPUShares", "t", str(shares))
        if config.cpu_quota:
            yield "CPUQuotaPerSecUSec", "t", _quota_per_second(config.cpu_quota, config.cpu_period)
        if config.pids is not None:
            yield "TasksMax", "t", _NO_LIMIT if config.pids < 0 else str(config.pids)

    async def _call(self, method: str, signature: str, *arguments: str) -> None:
        self.check()
        command: Sequence[str] = (self._program, "call", *_MANAGER, method, signature, *arguments)
        try:
            done = await run_command(command, seconds=_SECONDS)
        except TimeoutError:
            raise CgroupError(f"{method} of {arguments[0]}: systemd does not answer") from None
        except OSError as error:
            raise CgroupError(f"systemd cannot be called: {self._program}: {error.strerror}") from None
        if done.exit_code and not (method == "StartTransientUnit" and b"already exists" in done.stderr):
            raise CgroupError(f"{method} of {arguments[0]}: {done.stderr.decode(errors='replace').strip()}")


def _quota_per_second(quota: int, period: int | None) -> str:
    """Return the CPU time in microseconds per second, rounded up to the steps of systemd."""
    if quota < 0 or not period:
        return _NO_LIMIT
    exact = quota * _MICRO // period
    return str(-(-exact // _ROUND_MICROSECONDS) * _ROUND_MICROSECONDS)

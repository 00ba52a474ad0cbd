# SPDX-License-Identifier: Apache-2.0
"""Chaos plan: read from YAML, validated, and scheduled by its seed.

    apiVersion: kubeloop.dev/v1alpha1
    kind: ChaosPlan
    seed: 7
    duration: 1m
    faults:
      - {fault: kill, targets: [etcd, apiserver], every: 5s, for: 2s}
      - {fault: cut-watches, every: 3s}
      - {fault: errors, verbs: [create], resources: [pods], chance: 0.05, code: 503}

The same seed always gives the same moments and targets.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec

from kubeloop.api.scalars.duration import parse_duration
from kubeloop.chaos.call_matcher import CallMatcher

API_VERSION = "kubeloop.dev/v1alpha1"
KIND = "ChaosPlan"
# Components of a plane, by the names of their programs.
COMPONENTS = ("etcd", "apiserver", "controller-manager", "scheduler")

Chance = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=9)]


class PlanError(ValueError):
    """Invalid plan; the message has the place and the reason."""


class Seconds(float):
    """Duration in Go's format: `2s`, `1m30s`, `500ms`."""

    def __new__(cls, value: float | str) -> Seconds:
        return super().__new__(cls, parse_duration(value) / 1e9 if isinstance(value, str) else value)


class _Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel", tag_field="fault"):
    """Base of all faults."""


class _Recurring(_Fault, frozen=True, kw_only=True):
    """Fault that recurs at intervals that vary by half around `every`, and lasts for a while each time."""

    every: Seconds
    for_: Seconds = msgspec.field(default=Seconds(2), name="for")


class _OnProcesses(_Recurring, frozen=True, kw_only=True):
    """Fault of a number of processes of some components at once."""

    possible: ClassVar[tuple[str, ...]] = COMPONENTS
    targets: tuple[str, ...] = COMPONENTS
    count: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1


class Kill(_OnProcesses, frozen=True, kw_only=True, tag="kill"):
    """Kills a process, and starts it again."""


class Pause(_OnProcesses, frozen=True, kw_only=True, tag="pause"):
    """Suspends a process, as in a virtual machine that is migrated."""


class Partition(_OnProcesses, frozen=True, kw_only=True, tag="partition"):
    """Disconnects a process from all others; connections hang instead of breaking."""


class ClockJump(_OnProcesses, frozen=True, kw_only=True, tag="clock-jump"):
    """Sets a process's clock wrong; negative is back in time."""

    possible: ClassVar[tuple[str, ...]] = (
        "apiserver",
        "controller-manager",
        "scheduler",
    )  # etcd reads the kernel's clock directly
    targets: tuple[str, ...] = possible
    by: Seconds


class DiskFull(_OnProcesses, frozen=True, kw_only=True, tag="disk-full"):
    """Makes all file writes of a process fail; a process that exits is started again when there is room."""

    possible: ClassVar[tuple[str, ...]] = ("etcd", "apiserver")
    targets: tuple[str, ...] = ("apiserver",)


class LoseData(_OnProcesses, frozen=True, kw_only=True, tag="lose-data"):
    """Kills an etcd member and deletes its data; an empty one replaces it."""

    possible: ClassVar[tuple[str, ...]] = ("etcd",)
    targets: tuple[str, ...] = possible


class CorruptStore(_OnProcesses, frozen=True, kw_only=True, tag="corrupt-store"):
    """Damages the file of a stopped server: it must refuse to start, until the file is intact again."""

    possible: ClassVar[tuple[str, ...]] = ("apiserver",)
    targets: tuple[str, ...] = possible


class _OnCalls(_Fault, frozen=True, kw_only=True):
    """Fault that hits calls at random all the time. Empty selectors match any; user names may contain `*`."""

    verbs: tuple[str, ...] = ()  # also `read` and `write`
    resources: tuple[str, ...] = ()  # plural, or with the group: deployments.apps
    users: tuple[str, ...] = ()
    except_users: tuple[str, ...] = ()
    chance: Chance = 0.05

    def concerns(self, user: str, verb: str, resource: str) -> bool:
        """Return True if the fault may hit a call; `resource` includes the group."""
        return (
            CallMatcher(self.verbs, self.resources).matches(verb, resource)
            and (not self.users or _is_among(user, self.users))
            and not _is_among(user, self.except_users)
        )


class Errors(_OnCalls, frozen=True, kw_only=True, tag="errors"):
    """Rejects a call before it is executed."""

    code: Annotated[int, msgspec.Meta(ge=400, le=599)] = 503


class Conflicts(_OnCalls, frozen=True, kw_only=True, tag="conflicts"):
    """Rejects a write with a Conflict."""

    verbs: tuple[str, ...] = ("update", "patch")


class LostAnswers(_OnCalls, frozen=True, kw_only=True, tag="lost-answers"):
    """Executes a call, but breaks the connection before the answer."""


class Slow(_OnCalls, frozen=True, kw_only=True, tag="slow"):
    """Delays a call, or an open watch's next event."""

    by: Seconds = Seconds(0.5)


class CutWatches(_Recurring, frozen=True, kw_only=True, tag="cut-watches"):
    """Breaks all watches."""

    resources: tuple[str, ...] = ()


OnProcesses: TypeAlias = Kill | Pause | Partition | ClockJump | DiskFull | LoseData | CorruptStore
OnCalls: TypeAlias = Errors | Conflicts | LostAnswers | Slow
Fault: TypeAlias = OnProcesses | OnCalls | CutWatches


class PlaneConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Number of processes of each component. Without etcd it is one server with SQLite."""

    etcd: Count = 3
    api_servers: Count = 3
    controller_managers: Count = 2
    schedulers: Count = 2

    def members(self) -> dict[str, tuple[str, ...]]:
        """Return the names of all processes by component."""
        counts = zip(COMPONENTS, (self.etcd, self.api_servers, self.controller_managers, self.schedulers), strict=True)
        return {component: tuple(f"{component}-{n}" for n in range(count)) for component, count in counts}


class LoadConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Clients that read, write and watch during the faults.

    The load goes on after the last fault until `operations` calls have succeeded: a slow machine proves as much as a
    fast one.
    """

    clients: Annotated[int, msgspec.Meta(ge=1, le=64)] = 6
    watchers: Annotated[int, msgspec.Meta(ge=0, le=64)] = 3
    keys: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 12
    operations: Annotated[int, msgspec.Meta(ge=0, le=100_000)] = 0


class ChaosPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Chaos plan."""

    api_version: str
    kind: str
    seed: int = 0
    duration: Seconds = Seconds(60)
    plane: PlaneConfig = PlaneConfig()
    load: LoadConfig = LoadConfig()
    faults: tuple[Fault, ...] = ()

    longest: ClassVar[float] = 24 * 3600.0

    def on_calls(self) -> Iterator[OnCalls]:
        """Return the faults on calls."""
        return (fault for fault in self.faults if isinstance(fault, OnCalls))

    def for_calls(self) -> ChaosPlan:
        """Return the plan with only the faults that an API server injects itself."""
        return msgspec.structs.replace(
            self, faults=tuple(fault for fault in self.faults if isinstance(fault, OnCalls | CutWatches))
        )

    def document(self) -> dict[str, Any]:
        """Return the plan as plain data, as in a file."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=float)
        return plain

    def schedule(self) -> list[FaultOccurrence]:
        """Return when each fault hits which process and when it ends, in the order of time."""
        members = self.plane.members()
        found: list[FaultOccurrence] = []
        for index, fault in enumerate(self.faults):
            if isinstance(fault, _Recurring):
                found += _moments_of(fault, random.Random(f"{self.seed}/{index}"), self.duration, members)
        return sorted(found, key=lambda moment: moment.at)


class FaultOccurrence(msgspec.Struct, frozen=True):
    """Single occurrence of a fault."""

    at: float  # seconds after the beginning
    until: float
    fault: OnProcesses | CutWatches
    target: str  # a process, or empty for all watches


def _moments_of(
    fault: Any, chance: random.Random, duration: float, members: Mapping[str, Sequence[str]]
) -> Iterator[FaultOccurrence]:
    victims = [name for component in getattr(fault, "targets", ()) for name in members[component]]
    at = fault.every * chance.uniform(0.5, 1.5)
    while at + fault.for_ <= duration:
        if isinstance(fault, CutWatches):
            yield FaultOccurrence(at, at, fault, "")
        else:
            for victim in chance.sample(victims, min(fault.count, len(victims))):
                yield FaultOccurrence(at, at + fault.for_, fault, victim)
        at += fault.every * chance.uniform(0.5, 1.5)


def load_plan(path: Path) -> ChaosPlan:
    """Read a plan from a file; raises PlanError."""
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise PlanError(f"{path}: {error}") from None
    return plan_of(document, str(path))


def plan_of(document: Any, source: str = "the plan") -> ChaosPlan:
    """Read a plan from plain data; raises PlanError."""
    try:
        plan = msgspec.convert(document, ChaosPlan, dec_hook=_seconds)
    except (msgspec.ValidationError, ValueError) as error:
        raise PlanError(f"{source}: {error}") from None
    if (plan.api_version, plan.kind) != (API_VERSION, KIND):
        raise PlanError(f"{source}: must be {KIND} of {API_VERSION}, not {plan.kind} of {plan.api_version}")
    if not 0 < plan.duration <= plan.longest:
        raise PlanError(f"{source}: duration must be greater than 0 and at most a day")
    if plan.plane.api_servers > 1 and not plan.plane.etcd:
        raise PlanError(f"{source}: plane: a SQLite file can be used by one API server only; several need etcd")
    if not plan.plane.api_servers:
        raise PlanError(f"{source}: plane: at least one API server is required")
    for index, fault in enumerate(plan.faults):
        if (why := _impossible(fault, plan.plane)) is not None:
            raise PlanError(f"{source}: faults[{index}]: {why}")
    return plan


def _impossible(fault: Fault, plane: PlaneConfig) -> str | None:
    """Return why a fault is impossible in a plane; None if it is possible."""
    if isinstance(fault, _Recurring) and (fault.every <= 0 or fault.for_ < 0):
        return "`every` must be greater than 0, and `for` must not be less than `every`"
    if isinstance(fault, CorruptStore) and plane.etcd:
        return "only a plane with SQLite (`etcd: 0`) has a file to corrupt"
    if isinstance(fault, LoseData) and plane.etcd < 3:
        return "a member of etcd can only be replaced if at least two others remain"
    if isinstance(fault, _OnProcesses):
        for target in fault.targets:
            if target not in COMPONENTS:
                return f"unknown component {target!r}; known are {', '.join(COMPONENTS)}"
            if target not in fault.possible:
                return f"this fault does not apply to {target}, only to {', '.join(fault.possible)}"
    return None


def _is_among(user: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(user, pattern) for pattern in patterns)


def _seconds(kind: type, value: object) -> object:
    if kind is Seconds and isinstance(value, str | int | float) and not isinstance(value, bool):
        return Seconds(value)
    raise ValueError(f"expected a time such as 2s or 500ms, got {value!r}")

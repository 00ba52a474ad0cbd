# SPDX-License-Identifier: Apache-2.0
"""Describes what a cluster waits for: keys of work queues, informers, failed reconciles, unscheduled pods.

For people who read why a test has failed. Nothing here runs the event loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.conditions import find_condition
from kubeloop.api.pods.pod import is_terminal
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.runtime.controller import Controller, InformerSource
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop

_SCHEDULER = "kube-scheduler"  # a literal: the module with the name imports the whole scheduler
_MAX_KEYS = 10  # of each list
_MAX_LOOPS = 20
_MAX_PODS = 10


def describe_pending_work(loops: Sequence[Loop], registry: StorageRegistry) -> list[str]:
    """Return one line for each loop with work left, and for each pod without a node."""
    busy = [line for loop in loops for line in loop_lines(loop)]
    pods = list(unscheduled_pod_lines(registry, loops))
    return [*_bounded(busy, _MAX_LOOPS), *_bounded(pods, _MAX_PODS)]


def loop_lines(loop: Loop) -> Iterator[str]:
    """Yield what a loop waits for; nothing if it is idle."""
    status = loop.status()
    if not isinstance(loop, Controller):
        if status.depth or status.active or status.delayed:
            yield f"{loop.name}: {status.depth} ready, {status.active} running, {status.delayed} delayed"
        return
    if status.phase != "running":
        waits = "; ".join(map(_source_text, loop.unsynced))
        yield f"{loop.name}: {status.phase}" + (f": {waits}" if waits else "")
    keys = loop.queue.snapshot()
    if keys.ready:
        yield f"{loop.name}: ready: {_listed(map(str, keys.ready))}"
    if keys.running:
        yield f"{loop.name}: running: {_listed(map(str, keys.running))}"
    if keys.delayed:
        yield f"{loop.name}: waiting: {_listed(_delayed_texts(loop, keys.delayed))}"
    if status.last_error and not loop.failures:
        yield f"{loop.name}: {status.errors} errors, the last one of {status.last_error_key}: {status.last_error}"


def missing_kinds(loop: Loop, registry: StorageRegistry) -> str:
    """Return the resources that a loop waits for and that the server does not serve; empty if there are none."""
    waiting = loop.unsynced if isinstance(loop, Controller) else ()
    failed = [one for one in waiting if isinstance(one, Informer) and isinstance(one.reflector.last_error, NotFound)]
    served = {_name_of(one.resource) for one in registry.storages()}
    return ", ".join(name for one in failed if (name := _name_of(one.resource)) not in served)


def _name_of(resource: Resource) -> str:
    return f"{resource.group_resource}/{resource.version}"


def _source_text(source: InformerSource) -> str:
    error = source.reflector.last_error if isinstance(source, Informer) else None
    return source.resource.group_resource + (f" ({type(error).__name__}: {error})" if error is not None else "")


def _delayed_texts(loop: Controller[object], delayed: Iterable[tuple[object, float]]) -> Iterator[str]:
    for key, seconds in sorted(delayed, key=lambda one: one[1]):
        failure = loop.failures.get(key)
        why = f" after {failure.tries} failures, the last one {failure.error}" if failure is not None else ""
        yield f"{key} for {seconds:.3g} s{why}"


# Pods.


def unscheduled_pod_lines(registry: StorageRegistry, loops: Iterable[Loop]) -> Iterator[str]:
    """Yield each pod without a node, with the scheduler's reason."""
    has_scheduler = any(loop.name == _SCHEDULER for loop in loops)
    pods: list[Pod] = registry.list_objects("pods")
    for pod in pods:
        if not pod.spec.node_name and not is_terminal(pod):
            meta = pod.metadata
            yield f"pod {meta.namespace}/{meta.name} is not scheduled: {_scheduler_reason(pod, has_scheduler)}"


def _scheduler_reason(pod: Pod, has_scheduler: bool) -> str:
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"{scheduled.reason}: {scheduled.message}" if scheduled.message else scheduled.reason
    return (
        "the scheduler has not tried it yet" if has_scheduler else "no scheduler runs; make the cluster with plane=True"
    )


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(_bounded(list(texts), _MAX_KEYS))


def _bounded(lines: Sequence[str], most: int) -> list[str]:
    left = len(lines) - most
    return [*lines[:most], *([f"and {left} more"] if left > 0 else ())]

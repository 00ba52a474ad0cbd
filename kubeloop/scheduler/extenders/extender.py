"""Extenders: servers of others that strike nodes off, like some more than others, choose victims, or bind.

They are asked one after the other, those that may fail last. What they say about nodes is an `Opinions`, which one
attempt then takes into account; the nodes may have changed while they were asked, and are looked at once more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kubeloop.api.codec import to_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.scheduler.config.extender_settings import ExtenderSettings, is_interested
from kubeloop.scheduler.framework.status import EXTENDER, Code, Refusal, SchedulingError

_SCALE: Final = 10  # theirs go up to 10, ours to 100

log = logging.getLogger(__name__)


class ExtenderFailed(SchedulingError):
    """An extender gave no answer, or none that can be followed."""


class Caller(Protocol):
    """How an extender is reached."""

    async def ask(self, verb: str, question: Any) -> Any: ...
    async def close(self) -> None: ...


@dataclass(slots=True)
class Opinions:
    """What extenders say of the nodes that they were asked about; others do not come into question."""

    left: dict[str, Node]
    refused: dict[str, Refusal] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods of a node, by uid, that would have to go, and how many of them a budget protects."""

    pods: Mapping[str, Pod]
    violations: int


class Extender:
    """One of them."""

    def __init__(self, settings: ExtenderSettings, calls: Caller) -> None:
        self.settings = settings
        self._calls = calls

    async def filter(self, pod: Pod, opinions: Opinions) -> None:
        """Strike off what it does not let pass."""
        answer = _lowered(await self._calls.ask(self.settings.filter_verb, self._question(pod, opinions.left)))
        if answer.get("error"):
            raise ExtenderFailed(str(answer["error"]))
        names = self._names_in(answer, opinions.left)
        told = {name: (Code.UNSCHEDULABLE, why) for name, why in (answer.get("failednodes") or {}).items()}
        hopeless = answer.get("failedandunresolvablenodes") or {}
        told |= {name: (Code.UNRESOLVABLE, why) for name, why in hopeless.items()}
        for name in opinions.left:
            if name not in names:
                code, why = told.get(name, (Code.UNRESOLVABLE, ""))
                opinions.refused[name] = Refusal(code, (why,) if why else (), EXTENDER)
        opinions.left = {name: node for name, node in opinions.left.items() if name in names}

    async def prioritize(self, pod: Pod, nodes: Mapping[str, Node]) -> dict[str, int]:
        """How much it likes each node, weighed."""
        answer = await self._calls.ask(self.settings.prioritize_verb, self._question(pod, nodes))
        rows = [_lowered(one) for one in answer or ()]
        return {str(one["host"]): int(one["score"]) * self.settings.weight * _SCALE for one in rows}

    async def bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        question = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        answer = _lowered(await self._calls.ask(self.settings.bind_verb, question) or {})
        if answer.get("error"):
            raise ExtenderFailed(str(answer["error"]))

    async def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> dict[str, tuple[list[str], int]]:
        """By node, the uids of those who may go, and how many of them a budget protects."""
        knows = self.settings.node_cache_capable
        told = {name: _told(one, by_uid=knows) for name, one in victims.items()}
        question = {
            "Pod": to_plain(pod),
            "NodeNameToVictims": None if knows else told,
            "NodeNameToMetaVictims": told if knows else None,
        }
        answer = _lowered(await self._calls.ask(self.settings.preempt_verb, question) or {})
        found = {name: _lowered(one or {}) for name, one in (answer.get("nodenametometavictims") or {}).items()}
        return {
            name: ([str(_lowered(pod)["uid"]) for pod in one.get("pods") or ()], int(one.get("numpdbviolations") or 0))
            for name, one in found.items()
        }

    async def close(self) -> None:
        await self._calls.close()

    def _question(self, pod: Pod, nodes: Mapping[str, Node]) -> dict[str, Any]:
        whole = {"metadata": {}, "items": [to_plain(one) for one in nodes.values()]}
        knows = self.settings.node_cache_capable
        return {
            "Pod": to_plain(pod),
            "Nodes": None if knows else whole,
            "NodeNames": list(nodes) if knows else None,
        }

    def _names_in(self, answer: Mapping[str, Any], asked: Mapping[str, Node]) -> set[str]:
        names = answer.get("nodenames")
        if self.settings.node_cache_capable and names is not None:
            for name in names:
                if name not in asked:
                    told = f'claims a filtered node "{name}" which is not found in the input node list'
                    raise ExtenderFailed(f'extender "{self.settings.url_prefix}" {told}')
            return set(names)
        nodes = answer.get("nodes")
        return {one["metadata"]["name"] for one in nodes.get("items") or ()} if nodes is not None else set()


class Extenders:
    """All of them."""

    def __init__(
        self, settings: Sequence[ExtenderSettings], caller: Callable[[ExtenderSettings], Caller] | None = None
    ) -> None:
        reach = caller or _over_http
        self._all = [Extender(one, reach(one)) for one in sorted(settings, key=lambda one: one.ignorable)]

    def __bool__(self) -> bool:
        return bool(self._all)

    async def opinions(self, pod: Pod, nodes: Mapping[str, Node]) -> Opinions:
        """What they say of nodes that would do. Raises `ExtenderFailed`, if one that must answer does not."""
        opinions = Opinions(dict(nodes))
        for one in self._interested(pod, "filter_verb"):
            if not opinions.left:
                break
            await _unless_ignorable(one, one.filter(pod, opinions))
        if len(opinions.left) > 1:
            await self._score(pod, opinions)
        return opinions

    async def _score(self, pod: Pod, opinions: Opinions) -> None:
        """Whoever does not answer here has no say."""
        asked = self._interested(pod, "prioritize_verb")
        answers = await asyncio.gather(*(one.prioritize(pod, opinions.left) for one in asked), return_exceptions=True)
        for one, scores in zip(asked, answers, strict=True):
            if isinstance(scores, BaseException):
                if not isinstance(scores, ExtenderFailed | LookupError | TypeError | ValueError):
                    raise scores
                log.info("%s gives no scores: %s", one.settings.url_prefix, scores)
                continue
            for name, score in scores.items():
                opinions.scores[name] = opinions.scores.get(name, 0) + score

    async def bind(self, pod: Pod, node: str) -> bool:
        """Whether one of them has bound the pod. Raises `ExtenderFailed`."""
        for one in self._interested(pod, "bind_verb"):
            if await _unless_ignorable(one, one.bind(pod, node)):
                return True
        return False

    def preempts(self, pod: Pod) -> bool:
        return bool(self._interested(pod, "preempt_verb"))

    async def preempt(self, pod: Pod, victims: dict[str, Victims]) -> dict[str, Victims]:
        """Who may go from which node, as they all agree. Raises `ExtenderFailed`."""
        for one in self._interested(pod, "preempt_verb"):
            try:
                answer = await one.preempt(pod, victims)
                victims = _agreed(one.settings, victims, answer)
            except ExtenderFailed as error:
                if not one.settings.ignorable:
                    raise
                log.info("%s is not heard about victims: %s", one.settings.url_prefix, error)
            if not victims:
                break
        return victims

    async def close(self) -> None:
        for one in self._all:
            await one.close()

    def _interested(self, pod: Pod, verb: str) -> list[Extender]:
        return [one for one in self._all if getattr(one.settings, verb) and is_interested(one.settings, pod)]


def _over_http(settings: ExtenderSettings) -> Caller:
    from kubeloop.scheduler.extenders.http import ExtenderCalls  # with all of TLS, which few need

    return ExtenderCalls(settings)


async def _unless_ignorable(extender: Extender, asking: Awaitable[None]) -> bool:
    """Whether it answered."""
    try:
        await asking
    except ExtenderFailed as error:
        if not extender.settings.ignorable:
            raise
        log.info("%s is not heard: %s", extender.settings.url_prefix, error)
        return False
    return True


def _agreed(
    settings: ExtenderSettings, victims: Mapping[str, Victims], answer: Mapping[str, tuple[list[str], int]]
) -> dict[str, Victims]:
    found: dict[str, Victims] = {}
    for name, (uids, violations) in answer.items():
        if not uids:
            if settings.ignorable:
                continue
            raise ExtenderFailed(f'expected at least one victim pod on node "{name}"')
        known = victims[name].pods if name in victims else {}
        for uid in uids:
            if uid not in known:
                told = f"claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not found on that node"
                raise ExtenderFailed(f"extender: {settings.url_prefix} {told}")
        found[name] = Victims({uid: known[uid] for uid in uids}, violations)
    return found


def _told(victims: Victims, *, by_uid: bool) -> dict[str, Any]:
    pods = [{"UID": uid} for uid in victims.pods] if by_uid else [to_plain(one) for one in victims.pods.values()]
    return {"Pods": pods, "NumPDBViolations": victims.violations}


def _lowered(answer: Any) -> dict[str, Any]:
    """Go reads names of fields in whatever case they come."""
    if not isinstance(answer, Mapping):
        raise ExtenderFailed(f"an answer is no object but {type(answer).__name__}")
    return {str(key).lower(): value for key, value in answer.items()}

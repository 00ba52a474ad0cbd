# SPDX-License-Identifier: Apache-2.0
"""Scheduler extenders: external servers that filter and prioritize nodes, choose victims, or bind pods.

Extenders are called one at a time, ignorable ones last. Their results about nodes are applied by the following
scheduling cycle, which filters the nodes again, as they may have changed during the calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kubeloop.api.codec import to_plain
from kubeloop.api.generated.core_v1 import Node, Pod
from kubeloop.scheduler.config.extender_settings import ExtenderSettings, is_interested
from kubeloop.scheduler.framework.status import EXTENDER, Code, SchedulingError, Status

_SCALE: Final = 10  # extender scores go up to 10, plugin scores to 100

log = logging.getLogger(__name__)


class ExtenderError(SchedulingError):
    """Raised if an extender does not respond, or its response is unusable."""


class ExtenderTransport(Protocol):
    """Transport to an extender."""

    async def call(self, verb: str, question: Any) -> Any:
        """Call a verb of the extender and return the decoded response."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(slots=True)
class ExtenderResults:
    """Results of the extenders for the nodes sent to them; other nodes are not feasible."""

    feasible_nodes: dict[str, Node]
    failed_nodes: dict[str, Status] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    def keep_nodes(self, names: Container[str]) -> None:
        """Keep only the nodes with these names."""
        self.feasible_nodes = {name: node for name, node in self.feasible_nodes.items() if name in names}


@dataclass(frozen=True, slots=True)
class ExtenderVictims:
    """Preemption victims on a node by uid, with the number of PDB violations."""

    pods: Mapping[str, Pod]
    num_pdb_violations: int


class Extender:
    """Client of one extender."""

    def __init__(self, settings: ExtenderSettings, calls: ExtenderTransport) -> None:
        self.settings = settings
        self._calls = calls

    async def filter(self, pod: Pod, opinions: ExtenderResults) -> None:
        """Remove the nodes that the extender rejects."""
        answer = _lower_keys(
            await self._calls.call(self.settings.filter_verb, self._question(pod, opinions.feasible_nodes))
        )
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))
        names = self._names_in(answer, opinions.feasible_nodes)
        told = {name: (Code.UNSCHEDULABLE, why) for name, why in (answer.get("failednodes") or {}).items()}
        hopeless = answer.get("failedandunresolvablenodes") or {}
        told |= {name: (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, why) for name, why in hopeless.items()}
        for name in opinions.feasible_nodes:
            if name not in names:
                code, why = told.get(name, (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ""))
                opinions.failed_nodes[name] = Status(code, (why,) if why else (), EXTENDER)
        opinions.keep_nodes(names)

    async def prioritize(self, pod: Pod, nodes: Mapping[str, Node]) -> dict[str, int]:
        """Return the weighted score of each node."""
        answer = await self._calls.call(self.settings.prioritize_verb, self._question(pod, nodes))
        rows = [_lower_keys(one) for one in answer or ()]
        return {str(one["host"]): int(one["score"]) * self.settings.weight * _SCALE for one in rows}

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind the pod by the extender. Raises `ExtenderError`."""
        meta = pod.metadata
        question = {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node}
        answer = _lower_keys(await self._calls.call(self.settings.bind_verb, question) or {})
        if answer.get("error"):
            raise ExtenderError(str(answer["error"]))

    async def preempt(self, pod: Pod, victims: Mapping[str, ExtenderVictims]) -> dict[str, tuple[list[str], int]]:
        """Return by node the uids of the accepted victims and the number of PDB violations."""
        knows = self.settings.node_cache_capable
        told = {name: _encode_victims(one, by_uid=knows) for name, one in victims.items()}
        question = {
            "Pod": to_plain(pod),
            "NodeNameToVictims": None if knows else told,
            "NodeNameToMetaVictims": told if knows else None,
        }
        answer = _lower_keys(await self._calls.call(self.settings.preempt_verb, question) or {})
        found = {name: _lower_keys(one or {}) for name, one in (answer.get("nodenametometavictims") or {}).items()}
        return {
            name: (
                [str(_lower_keys(pod)["uid"]) for pod in one.get("pods") or ()],
                int(one.get("numpdbviolations") or 0),
            )
            for name, one in found.items()
        }

    async def close(self) -> None:
        """Close the connections."""
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
                    raise ExtenderError(f'extender "{self.settings.url_prefix}" {told}')
            return set(names)
        nodes = answer.get("nodes")
        return {one["metadata"]["name"] for one in nodes.get("items") or ()} if nodes is not None else set()


class Extenders:
    """All configured extenders."""

    def __init__(
        self,
        settings: Sequence[ExtenderSettings],
        caller: Callable[[ExtenderSettings], ExtenderTransport] | None = None,
    ) -> None:
        reach = caller or _over_http
        self._all = [Extender(one, reach(one)) for one in sorted(settings, key=lambda one: one.ignorable)]

    def __bool__(self) -> bool:
        return bool(self._all)

    async def filter_and_prioritize(self, pod: Pod, nodes: Mapping[str, Node]) -> ExtenderResults:
        """Return the results for feasible nodes. Raises `ExtenderError` for an extender that is not ignorable."""
        opinions = ExtenderResults(dict(nodes))
        for one in self._select_interested(pod, "filter_verb"):
            if not opinions.feasible_nodes:
                break
            await _unless_ignorable(one, one.filter(pod, opinions))
        if len(opinions.feasible_nodes) > 1:
            await self._score(pod, opinions)
        return opinions

    async def _score(self, pod: Pod, opinions: ExtenderResults) -> None:
        """Add up the scores; an extender that fails here is ignored."""
        asked = self._select_interested(pod, "prioritize_verb")
        answers = await asyncio.gather(
            *(one.prioritize(pod, opinions.feasible_nodes) for one in asked), return_exceptions=True
        )
        for one, scores in zip(asked, answers, strict=True):
            if isinstance(scores, BaseException):
                if not isinstance(scores, ExtenderError | LookupError | TypeError | ValueError):
                    raise scores
                log.info("extender %s failed to prioritize: %s", one.settings.url_prefix, scores)
                continue
            for name, score in scores.items():
                opinions.scores[name] = opinions.scores.get(name, 0) + score

    async def bind(self, pod: Pod, node: str) -> bool:
        """Return True if an extender has bound the pod. Raises `ExtenderError`."""
        for one in self._select_interested(pod, "bind_verb"):
            if await _unless_ignorable(one, one.bind(pod, node)):
                return True
        return False

    def supports_preemption(self, pod: Pod) -> bool:
        """Return True if an interested extender supports preemption."""
        return bool(self._select_interested(pod, "preempt_verb"))

    async def preempt(self, pod: Pod, victims: dict[str, ExtenderVictims]) -> dict[str, ExtenderVictims]:
        """Return the victims by node that all extenders accept. Raises `ExtenderError`."""
        for one in self._select_interested(pod, "preempt_verb"):
            try:
                answer = await one.preempt(pod, victims)
                victims = _intersect_victims(one.settings, victims, answer)
            except ExtenderError as error:
                if not one.settings.ignorable:
                    raise
                log.info("ignoring extender %s for preemption: %s", one.settings.url_prefix, error)
            if not victims:
                break
        return victims

    async def close(self) -> None:
        """Close all connections."""
        for one in self._all:
            await one.close()

    def _select_interested(self, pod: Pod, verb: str) -> list[Extender]:
        return [one for one in self._all if getattr(one.settings, verb) and is_interested(one.settings, pod)]


def _over_http(settings: ExtenderSettings) -> ExtenderTransport:
    from kubeloop.scheduler.extenders.http import ExtenderHTTPTransport  # imports TLS, which is rarely needed

    return ExtenderHTTPTransport(settings)


async def _unless_ignorable(extender: Extender, asking: Awaitable[None]) -> bool:
    """Await a call; return False if an ignorable extender failed."""
    try:
        await asking
    except ExtenderError as error:
        if not extender.settings.ignorable:
            raise
        log.info("ignoring extender %s: %s", extender.settings.url_prefix, error)
        return False
    return True


def _intersect_victims(
    settings: ExtenderSettings, victims: Mapping[str, ExtenderVictims], answer: Mapping[str, tuple[list[str], int]]
) -> dict[str, ExtenderVictims]:
    found: dict[str, ExtenderVictims] = {}
    for name, (uids, violations) in answer.items():
        if not uids:
            if settings.ignorable:
                continue
            raise ExtenderError(f'expected at least one victim pod on node "{name}"')
        known = victims[name].pods if name in victims else {}
        for uid in uids:
            if uid not in known:
                told = f"claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not found on that node"
                raise ExtenderError(f"extender: {settings.url_prefix} {told}")
        found[name] = ExtenderVictims({uid: known[uid] for uid in uids}, violations)
    return found


def _encode_victims(victims: ExtenderVictims, *, by_uid: bool) -> dict[str, Any]:
    pods = [{"UID": uid} for uid in victims.pods] if by_uid else [to_plain(one) for one in victims.pods.values()]
    return {"Pods": pods, "NumPDBViolations": victims.num_pdb_violations}


def _lower_keys(answer: Any) -> dict[str, Any]:
    """Return the response with lower-case keys, as Go matches field names case-insensitively."""
    if not isinstance(answer, Mapping):
        raise ExtenderError(f"the response is not an object but {type(answer).__name__}")
    return {str(key).lower(): value for key, value in answer.items()}

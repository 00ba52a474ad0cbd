# SPDX-License-Identifier: Apache-2.0
"""Gives a cluster role with an aggregation rule the rules of all roles that it selects.

Watches: cluster roles.
Owns: nothing.
Writes: rules of aggregated roles, by server-side apply.
Wakes itself: never.
Differs from upstream: roles are aggregated again only after a change that may affect them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kubeloop.api import codec
from kubeloop.api.generated.rbac_v1 import ClusterRole, PolicyRule
from kubeloop.api.selectors import SelectorError, label_selector_as_selector
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.runtime.controller import Controller, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "clusterrole-aggregation-controller"
QUEUE = "ClusterRoleAggregator"  # upstream's queue name, as dashboards know it
WORKERS = 5  # as upstream
MANAGER: Final = NAME  # field manager
AGGREGATED: Final = "aggregated"
YES = "yes"


def wire(context: ControllerContext) -> Controller[str]:
    """Build the controller and register its event handlers."""
    roles = context.informers.for_resource(resource_of_class(ClusterRole))
    roles.add_indexer(AGGREGATED, _is_aggregated)
    reconciler = Reconciler(context.client, roles)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )
    # Only selectors determine the affected roles, and there are few aggregated roles.
    controller.watches(
        roles, lambda _: [one.metadata.name for one in roles.by_index(AGGREGATED, YES)], may_affect_aggregation
    )  # fmt: skip
    return controller


class Reconciler:
    """Aggregates cluster roles by name."""

    def __init__(self, client: Client, roles: Informer) -> None:
        self._client = client
        self._roles = roles

    async def reconcile(self, key: str) -> None:
        """Apply the aggregated rules if they have changed."""
        role: ClusterRole | None = self._roles.get("", key)
        if role is None or role.aggregation_rule is None:
            return
        try:
            wanted = rules_of(role, self._roles.list())
        except SelectorError as error:
            raise TerminalError(f"clusterrole {key}: {error}") from None
        if wanted == list(role.rules or ()):
            return
        applied = {
            "apiVersion": role.api_version,
            "kind": role.kind,
            "metadata": {"name": key},
            "rules": [codec.to_plain(one) for one in wanted],
        }
        await self._client.apply(applied, manager=MANAGER, force=True)


def rules_of(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """Collect the rules of all other selected roles: by selector, then by name, each rule once."""
    others = sorted((one for one in roles if one.metadata.name != role.metadata.name), key=_name)
    rules: list[PolicyRule] = []
    for selector in role.aggregation_rule.cluster_role_selectors if role.aggregation_rule is not None else ():
        chosen = label_selector_as_selector(selector)
        for other in others:
            if chosen.matches(other.metadata.labels):
                rules += [rule for rule in other.rules or () if rule not in rules]
    return rules


def may_affect_aggregation(old: Any, new: Any) -> bool:
    """Return True if a role's change may affect aggregated roles."""
    if old is None or new is None:
        return True
    return bool(
        old.rules != new.rules
        or old.metadata.labels != new.metadata.labels
        or old.aggregation_rule != new.aggregation_rule
    )


def _is_aggregated(role: ClusterRole) -> tuple[str, ...]:
    return (YES,) if role.aggregation_rule is not None else ()


def _name(role: ClusterRole) -> str:
    return role.metadata.name

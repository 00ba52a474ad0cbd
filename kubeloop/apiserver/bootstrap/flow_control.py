# SPDX-License-Identifier: Apache-2.0
"""Default FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.api.generated.flowcontrol_v1 import (
    ExemptPriorityLevelConfiguration,
    FlowDistinguisherMethod,
    FlowSchema,
    FlowSchemaCondition,
    FlowSchemaSpec,
    FlowSchemaStatus,
    GroupSubject,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
    UserSubject,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Time

_ANNOTATIONS = {"apf.kubernetes.io/autoupdate-spec": "true"}
_EVERYTHING = ("*",)
_QUEUE_LENGTH = 50


class _Level(NamedTuple):
    """Limited priority level; without queues, requests above its limit are rejected."""

    shares: int
    lendable_percent: int
    queues: int = 0
    hand_size: int = 0


_LEVELS = {
    "catch-all": _Level(5, 0),
    "global-default": _Level(20, 50, 128, 6),
    "leader-election": _Level(10, 0, 16, 4),
    "node-high": _Level(40, 25, 64, 6),
    "system": _Level(30, 33, 64, 6),
    "workload-high": _Level(40, 50, 128, 6),
    "workload-low": _Level(100, 90, 128, 6),
}


class _Flow(NamedTuple):
    """Flow schema: subject (as `group:system:nodes`), priority level and matching precedence."""

    level: str
    precedence: int
    subject: str
    distinguisher: str = ""
    only: tuple[ResourcePolicyRule | NonResourcePolicyRule, ...] = ()


_ANYBODY = "group:system:unauthenticated group:system:authenticated"
_ANY_RESOURCE = ResourcePolicyRule(
    verbs=_EVERYTHING, api_groups=_EVERYTHING, resources=_EVERYTHING, namespaces=_EVERYTHING, cluster_scope=True
)
_ANY_URL = NonResourcePolicyRule(verbs=_EVERYTHING, non_resource_urls=_EVERYTHING)


def _leases(*verbs: str) -> ResourcePolicyRule:
    return ResourcePolicyRule(
        verbs=verbs, api_groups=("coordination.k8s.io",), resources=("leases",), namespaces=_EVERYTHING
    )


_FLOWS = {
    "exempt": _Flow("exempt", 1, "group:system:masters"),
    "probes": _Flow(
        "exempt",
        2,
        _ANYBODY,
        only=(NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/healthz", "/readyz", "/livez")),),
    ),
    "system-leader-election": _Flow(
        "leader-election",
        100,
        "user:system:kube-controller-manager user:system:kube-scheduler account:*",
        "ByUser",
        (_leases("get", "create", "update"),),
    ),
    "system-node-high": _Flow(
        "node-high",
        400,
        "group:system:nodes",
        "ByUser",
        (
            ResourcePolicyRule(
                verbs=_EVERYTHING,
                api_groups=("",),
                resources=("nodes", "nodes/status"),
                namespaces=_EVERYTHING,
                cluster_scope=True,
            ),
            _leases("*"),
        ),
    ),
    "system-nodes": _Flow("system", 500, "group:system:nodes", "ByUser"),
    "kube-controller-manager": _Flow("workload-high", 800, "user:system:kube-controller-manager", "ByNamespace"),
    "kube-scheduler": _Flow("workload-high", 800, "user:system:kube-scheduler", "ByNamespace"),
    "kube-system-service-accounts": _Flow("workload-high", 900, "account:*", "ByNamespace"),
    "service-accounts": _Flow("workload-low", 9000, "group:system:serviceaccounts", "ByUser"),
    "global-default": _Flow("global-default", 9900, _ANYBODY, "ByUser"),
    "catch-all": _Flow("catch-all", 10000, _ANYBODY, "ByUser"),
}


def priority_levels() -> Iterator[PriorityLevelConfiguration]:
    """Yield the default priority levels."""
    exempt = ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0)
    yield PriorityLevelConfiguration(
        metadata=_meta("exempt"), spec=PriorityLevelConfigurationSpec(type="Exempt", exempt=exempt)
    )
    for name, level in _LEVELS.items():
        limited = LimitedPriorityLevelConfiguration(
            nominal_concurrency_shares=level.shares,
            lendable_percent=level.lendable_percent,
            limit_response=_response(level),
        )
        yield PriorityLevelConfiguration(
            metadata=_meta(name), spec=PriorityLevelConfigurationSpec(type="Limited", limited=limited)
        )


def flow_schemas(now: Time) -> Iterator[FlowSchema]:
    """Yield the default flow schemas."""
    for name, flow in _FLOWS.items():
        found = FlowSchemaCondition(
            type="Dangling",
            status="False",
            reason="Found",
            message=(
                f'This FlowSchema references the PriorityLevelConfiguration object named "{flow.level}" and it exists'
            ),
            last_transition_time=now,
        )
        yield FlowSchema(
            metadata=_meta(name),
            spec=FlowSchemaSpec(
                priority_level_configuration=PriorityLevelConfigurationReference(name=flow.level),
                matching_precedence=flow.precedence,
                distinguisher_method=FlowDistinguisherMethod(type=flow.distinguisher) if flow.distinguisher else None,
                rules=(_rules(flow),),
            ),
            status=FlowSchemaStatus(conditions=(found,)),
        )


def _response(level: _Level) -> LimitResponse:
    if not level.queues:
        return LimitResponse(type="Reject")
    queuing = QueuingConfiguration(queues=level.queues, hand_size=level.hand_size, queue_length_limit=_QUEUE_LENGTH)
    return LimitResponse(type="Queue", queuing=queuing)


def _rules(flow: _Flow) -> PolicyRulesWithSubjects:
    chosen = flow.only or (_ANY_RESOURCE, _ANY_URL)
    return PolicyRulesWithSubjects(
        subjects=tuple(_subject(*one.split(":", 1)) for one in flow.subject.split()),
        resource_rules=tuple(rule for rule in chosen if isinstance(rule, ResourcePolicyRule)),
        non_resource_rules=tuple(rule for rule in chosen if isinstance(rule, NonResourcePolicyRule)),
    )


def _subject(kind: str, name: str) -> Subject:
    if kind == "group":
        return Subject(kind="Group", group=GroupSubject(name=name))
    if kind == "user":
        return Subject(kind="User", user=UserSubject(name=name))
    return Subject(kind="ServiceAccount", service_account=ServiceAccountSubject(name=name, namespace="kube-system"))


def _meta(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations=_ANNOTATIONS)

# SPDX-License-Identifier: Apache-2.0
"""Factories of the plugins that are off by default; loaded when one of them is enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubeloop.apiserver.admission import AdmissionPlugin
from kubeloop.apiserver.admission.plugins.always import AlwaysAdmitPlugin, AlwaysDenyPlugin
from kubeloop.apiserver.admission.plugins.deny_service_external_ips import DenyServiceExternalIPs
from kubeloop.apiserver.admission.plugins.event_rate_limit import EventRateLimit, EventRateLimitConfiguration
from kubeloop.apiserver.admission.plugins.namespace_existence import NamespaceAutoProvision, NamespaceExists
from kubeloop.apiserver.admission.plugins.owner_references_permission_enforcement import (
    OwnerReferencesPermissionEnforcement,
)
from kubeloop.apiserver.admission.plugins.pods.always_pull_images import AlwaysPullImages
from kubeloop.apiserver.admission.plugins.pods.extended_resource_toleration import ExtendedResourceToleration
from kubeloop.apiserver.admission.plugins.pods.limit_pod_hard_anti_affinity_topology import (
    LimitPodHardAntiAffinityTopology,
)
from kubeloop.apiserver.admission.plugins.pods.pod_node_selector import PodNodeSelector, PodNodeSelectorConfiguration
from kubeloop.apiserver.admission.plugins.pods.pod_toleration_restriction import (
    PodTolerationRestriction,
    PodTolerationRestrictionConfiguration,
)
from kubeloop.apiserver.admission.setup import PluginContext


def _image_policy(context: PluginContext) -> AdmissionPlugin:
    assert context.setup.image_policy is not None
    return context.setup.image_policy


def _auto_provision(context: PluginContext) -> AdmissionPlugin:
    assert context.setup.namespaces is not None
    return NamespaceAutoProvision(context.lookup, context.setup.namespaces)


def _owner_references(context: PluginContext) -> AdmissionPlugin:
    assert context.authorizer is not None
    return OwnerReferencesPermissionEnforcement(context.authorizer, context.setup.served)


OPTIONAL_PLUGINS: Final[dict[str, Callable[[PluginContext], AdmissionPlugin]]] = {
    "AlwaysAdmit": lambda context: AlwaysAdmitPlugin(),
    "AlwaysDeny": lambda context: AlwaysDenyPlugin(),
    "AlwaysPullImages": lambda context: AlwaysPullImages(),
    "DenyServiceExternalIPs": lambda context: DenyServiceExternalIPs(),
    "EventRateLimit": lambda context: EventRateLimit(
        context.setup.configuration("EventRateLimit", EventRateLimitConfiguration), context.setup.clock
    ),
    "ExtendedResourceToleration": lambda context: ExtendedResourceToleration(),
    "ImagePolicyWebhook": _image_policy,
    "LimitPodHardAntiAffinityTopology": lambda context: LimitPodHardAntiAffinityTopology(),
    "NamespaceAutoProvision": _auto_provision,
    "NamespaceExists": lambda context: NamespaceExists(context.lookup),
    "OwnerReferencesPermissionEnforcement": _owner_references,
    "PodNodeSelector": lambda context: PodNodeSelector(
        context.lookup, context.setup.configuration("PodNodeSelector", PodNodeSelectorConfiguration)
    ),
    "PodTolerationRestriction": lambda context: PodTolerationRestriction(
        context.lookup, context.setup.configuration("PodTolerationRestriction", PodTolerationRestrictionConfiguration)
    ),
}

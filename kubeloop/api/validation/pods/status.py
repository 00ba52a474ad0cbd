# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod's status: addresses, conditions, and container state transitions."""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated import core_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import check_group_id
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.validation.pods.containers.compute_resources import HUGE_PAGES
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.scalars import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_legacy_ip,
    validate_qualified_name,
    validate_unchanged,
)
from kubeloop.api.validation.shared.volume_health import VOLUME_HEALTH, validate_reasons

_STATUS: Final = FieldPath("status")
_SYSTEM_CONDITIONS: Final = ("PodScheduled", "Ready", "Initialized")
_NO_GENERATION: Final = "must be a non-negative integer"
_NOT_REVIVED: Final = "may not be transitioned to non-terminated state"
_MAX_UINT32: Final = 2**32 - 1
_HEALTHS: Final = ("Healthy", "Unhealthy", "Unknown")
_HEALTH_MESSAGE_MAX: Final = 1024
_ONE_PER_FAMILY: Final = "may specify no more than one IP for each IP family"
_UNKNOWN_CLAIM: Final = (
    "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' "
    "when container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
)
_KINDS: Final = (
    ("container_statuses", "containerStatuses"),
    ("init_container_statuses", "initContainerStatuses"),
    ("ephemeral_container_statuses", "ephemeralContainerStatuses"),
)


def validate_pod_status_update(new: core_v1.Pod, old: core_v1.Pod) -> FieldErrors:
    """Validate an update of a pod's status."""
    errors = _validate_conditions(new.status.conditions)
    errors += _validate_nomination(new, old)
    if new.status.observed_generation < 0:
        at = _STATUS.child("observedGeneration")
        errors.append(invalid(at, new.status.observed_generation, _NO_GENERATION))
    errors += validate_unchanged(new.status.qos_class, old.status.qos_class, _STATUS.child("qosClass"))
    errors += _validate_transitions(new, old)
    errors += _validate_claims(new)
    errors += _validate_volume_health(new)
    # Defaults make podIP equal to the first of podIPs.
    errors += _validate_ips(new.status.pod_ips, old.status.pod_ips, _STATUS.child("podIPs"))
    errors += _validate_host_ips(new.status, old.status)
    windows = new.spec.os is not None and new.spec.os.name == "windows"
    for attribute, name in _KINDS:
        errors += _validate_users(getattr(new.status, attribute), windows, _STATUS.child(name))
    errors += _validate_allocated(new.status.container_statuses, new.spec.containers or (), new, "containerStatuses")
    errors += _validate_allocated(
        new.status.init_container_statuses, new.spec.init_containers, new, "initContainerStatuses"
    )
    for index, status in enumerate(new.status.ephemeral_container_statuses):
        if status.allocated_resources_status:
            at = _STATUS.child("ephemeralContainerStatuses").index(index).child("allocatedResourcesStatus")
            errors.append(forbidden(at, "must not be specified in container status"))
    if new.status.volume_health:
        errors += VOLUME_HEALTH.validate_update(new.status, old.status, "pod status", _STATUS)
    return errors


def _validate_conditions(conditions: tuple[core_v1.PodCondition, ...]) -> FieldErrors:
    errors: FieldErrors = []
    for index, condition in enumerate(conditions):
        at = _STATUS.child("conditions").index(index)
        if condition.observed_generation < 0:
            errors.append(invalid(at.child("observedGeneration"), condition.observed_generation, _NO_GENERATION))
        if condition.type not in _SYSTEM_CONDITIONS:
            errors += validate_qualified_name(condition.type, at.child("Type"))
    return errors


def _validate_nomination(new: core_v1.Pod, old: core_v1.Pod) -> FieldErrors:
    node = new.status.nominated_node_name
    if not node or node == old.status.nominated_node_name:
        return []
    at = _STATUS.child("nominatedNodeName")
    errors = validate_dns_subdomain(node, at)
    if old.spec.node_name:
        errors.append(forbidden(at, "may not be set on pods that are already bound to a node"))
    return errors


def _validate_transitions(new: core_v1.Pod, old: core_v1.Pod) -> FieldErrors:
    """Validate that a terminated container stays so, unless it may be restarted."""
    spec = old.spec
    restart_all = any(
        rule.action == "RestartAllContainers"
        for container in (*spec.init_containers, *(spec.containers or ()))
        for rule in container.restart_policy_rules
    )
    known: dict[str, tuple[core_v1.Container, ...]] = {
        "containerStatuses": spec.containers or (),
        "initContainerStatuses": spec.init_containers,
    }
    errors: FieldErrors = []
    for attribute, name in _KINDS:
        if restart_all and name in known:
            continue
        after = {status.name: status for status in reversed(getattr(new.status, attribute))}
        containers = {container.name: container for container in known.get(name, ())}
        for index, status in enumerate(getattr(old.status, attribute)):
            now = after.get(status.name)
            if status.state.terminated is None or now is None or now.state.terminated is not None:
                continue
            container = containers.get(status.name)
            if container is None or not _restarts(container, spec, status.state.terminated.exit_code):
                errors.append(forbidden(_STATUS.child(name).index(index).child("state"), _NOT_REVIVED))
    return errors


def _restarts(container: core_v1.Container, spec: core_v1.PodSpec, exit_code: int) -> bool:
    policy = spec.restart_policy
    if container.restart_policy is not None:
        for rule in container.restart_policy_rules:
            codes = rule.exit_codes
            if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
                return True
        policy = container.restart_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _validate_claims(pod: core_v1.Pod) -> FieldErrors:
    errors: FieldErrors = []
    known = {claim.name for claim in pod.spec.resource_claims}
    seen: set[str] = set()
    for index, status in enumerate(pod.status.resource_claim_statuses):
        at = _STATUS.child("resourceClaimStatuses").index(index)
        if status.name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(at.child("name"), status.name, detail))
        if status.name in seen:
            errors.append(duplicate(at.child("name"), status.name))
        seen.add(status.name)
        if status.resource_claim_name is not None:
            errors += validate_dns_subdomain(status.resource_claim_name, at.child("resourceClaimName"))
    if pod.status.extended_resource_claim_status is not None:
        errors += _validate_extended(pod.status.extended_resource_claim_status, pod.spec)
    for index, claimed in enumerate(pod.status.node_allocatable_resource_claim_statuses):
        if claimed.resource_claim_name:
            errors += _validate_allocatable(
                claimed, pod, _STATUS.child("nodeAllocatableResourceClaimStatuses").index(index)
            )
    return errors


def _validate_extended(status: core_v1.PodExtendedResourceClaimStatus, spec: core_v1.PodSpec) -> FieldErrors:
    errors: FieldErrors = []
    path = _STATUS.child("extendedResourceClaimStatus")
    containers = {container.name: container for container in (*spec.init_containers, *(spec.containers or ()))}
    if not status.request_mappings:
        errors.append(required(path.child("requestMappings"), "at least one request mapping is required"))
    seen: set[core_v1.ContainerExtendedResourceRequest] = set()
    for index, mapping in enumerate(status.request_mappings or ()):
        at = path.child("requestMappings").index(index)
        container = containers.get(mapping.container_name)
        if container is None:
            detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            errors.append(invalid(at.child("containerName"), mapping.container_name, detail))
        elif mapping.resource_name not in container.resources.requests:
            detail = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests "
                "or spec.containers.resources.requests"
            )
            errors.append(invalid(at.child("resourceName"), mapping.resource_name, detail))
        errors += validate_dns_label(mapping.request_name, path.child("requestName"))
        if mapping in seen:
            errors.append(duplicate(at.child("containerName"), mapping.container_name))
            errors.append(duplicate(at.child("resourceName"), mapping.resource_name))
            errors.append(duplicate(at.child("requestName"), mapping.request_name))
        seen.add(mapping)
    name = status.resource_claim_name
    at = path.child("resourceClaimName")
    return errors + (validate_dns_subdomain(name, at) if name else [required(at)])


def _validate_allocatable(
    claimed: core_v1.NodeAllocatableResourceClaimStatus, pod: core_v1.Pod, path: FieldPath
) -> FieldErrors:
    errors: FieldErrors = []
    known = {claim.resource_claim_name for claim in pod.spec.resource_claims}
    known |= {status.resource_claim_name for status in pod.status.resource_claim_statuses}
    if claimed.resource_claim_name not in known:
        name = claimed.resource_claim_name
        errors.append(invalid(path.child("resourceClaimName"), name, "no mapping found in pod reference"))
    for index, mapped in enumerate(claimed.mapping):
        at = path.child("mapping").index(index)
        errors += _allocatable_name(mapped.name, at) + _no_less_than_nothing(mapped.quantity, at.child("quantity"))
    for index, overhead in enumerate(claimed.overhead):
        at = path.child("overhead").index(index)
        errors += _allocatable_name(overhead.name, at)
        if overhead.per_pod is None and overhead.per_container is None:
            errors.append(invalid(at, "", "at least one of perPod or perContainer must be set"))
        errors += _no_less_than_nothing(overhead.per_pod, at.child("perPod"))
        errors += _no_less_than_nothing(overhead.per_container, at.child("perContainer"))
    return errors


def _allocatable_name(name: str, path: FieldPath) -> FieldErrors:
    if name in ("cpu", "memory") or name.startswith(HUGE_PAGES):
        return []
    return [invalid(path.child("name"), name, "must be a node allocatable resource name")]


def _no_less_than_nothing(amount: str | None, path: FieldPath) -> FieldErrors:
    negative = amount is not None and parse_quantity(amount).sign() < 0
    return [invalid(path, amount, "must be non-negative")] if negative else []


def _validate_volume_health(pod: core_v1.Pod) -> FieldErrors:
    errors: FieldErrors = []
    names = {volume.name for volume in pod.spec.volumes}
    for index, health in enumerate(pod.status.volume_health):
        at = _STATUS.child("volumeHealth").index(index)
        if health.name and health.name not in names:
            errors.append(not_found(at.child("name"), health.name))
        errors += validate_reasons(health.health_conditions, at.child("healthConditions"))
    return errors


def _validate_host_ips(new: core_v1.PodStatus, old: core_v1.PodStatus) -> FieldErrors:
    if not new.host_ips:
        return []
    path = _STATUS.child("hostIPs")
    errors: FieldErrors = []
    if new.host_ip != new.host_ips[0].ip:
        errors.append(invalid(path.index(0).child("ip"), new.host_ips[0].ip, "must be equal to `hostIP`"))
    return errors + _validate_ips(new.host_ips, old.host_ips, path)


def _validate_ips(new: tuple[Any, ...], old: tuple[Any, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    kept = tuple(one.ip for one in old)
    for index, one in enumerate(new):
        errors += validate_legacy_ip(one.ip, path.index(index), kept)
    families = [address.version for address in (parse_ip(one.ip) for one in new) if address is not None]
    if len(new) > 1 and (len(new) > 2 or sorted(families) != [4, 6]):
        errors.append(invalid(path, to_internal(new), _ONE_PER_FAMILY))
    return errors


def _validate_users(statuses: tuple[core_v1.ContainerStatus, ...], windows: bool, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    for index, status in enumerate(statuses):
        user = status.user.linux if status.user is not None else None
        if user is None:
            continue
        at = path.index(index).child("user", "linux")
        if windows:
            errors.append(forbidden(at, "cannot be set for a windows pod"))
            continue
        if not 0 <= user.uid <= _MAX_UINT32:
            errors.append(invalid(at.child("uid"), user.uid, f"must be between 0 and {_MAX_UINT32}, inclusive"))
        errors += [invalid(at.child("gid"), user.gid, message) for message in check_group_id(user.gid)]
        for number, group in enumerate(user.supplemental_groups):
            where = at.child("supplementalGroups").index(number)
            errors += [invalid(where, group, message) for message in check_group_id(group)]
    return errors


def _validate_allocated(
    statuses: tuple[core_v1.ContainerStatus, ...],
    containers: tuple[core_v1.Container, ...],
    pod: core_v1.Pod,
    name: str,
) -> FieldErrors:
    errors: FieldErrors = []
    for index, status in enumerate(statuses):
        if not status.allocated_resources_status:
            continue
        container = next((one for one in containers if one.name == status.name), None)
        for number, allocated in enumerate(status.allocated_resources_status):
            at = _STATUS.child(name).index(index).child("allocatedResourcesStatus").index(number)
            if container is not None:
                errors += _validate_allocated_name(allocated.name, container, pod.status, at.child("name"))
            errors += _validate_health(allocated.resources, at.child("resources"))
    return errors


def _validate_allocated_name(
    name: str, container: core_v1.Container, status: core_v1.PodStatus, path: FieldPath
) -> FieldErrors:
    if not name.startswith("claim:"):
        found = name in container.resources.requests
        return [] if found else [invalid(path, name, "must match one of the container's resource requests")]
    claimed = {
        f"claim:{claim.name}/{claim.request}" if claim.request else f"claim:{claim.name}"
        for claim in container.resources.claims
    }
    extended = status.extended_resource_claim_status
    for mapping in (extended.request_mappings or ()) if extended is not None else ():
        amount = container.resources.requests.get(mapping.resource_name, "0")
        if mapping.container_name == container.name and extended is not None and parse_quantity(amount):
            claimed.add(f"claim:{extended.resource_claim_name}/{mapping.request_name}")
    return [] if name in claimed else [invalid(path, name, _UNKNOWN_CLAIM)]


def _validate_health(resources: tuple[core_v1.ResourceHealth, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, resource in enumerate(resources):
        at = path.index(index)
        if resource.health not in _HEALTHS:
            errors.append(not_supported(at.child("health"), resource.health, _HEALTHS))
        if resource.message is not None and not resource.message:
            errors.append(required(at.child("message"), "must be non-empty if specified"))
        elif resource.message is not None and len(resource.message) > _HEALTH_MESSAGE_MAX:
            errors.append(too_long(at.child("message"), _HEALTH_MESSAGE_MAX))
        if resource.resource_id in seen:
            errors.append(duplicate(at.child("resourceID"), resource.resource_id))
        seen.add(resource.resource_id)
    return errors

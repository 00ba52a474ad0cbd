# SPDX-License-Identifier: Apache-2.0
"""Validation of pod specs, in pods and in pod templates."""

from __future__ import annotations

from collections.abc import Set
from operator import itemgetter
from typing import Any, Final

from kubeloop.api.generated.core_v1 import PodDNSConfig, PodResourceClaim, PodSecurityContext, PodSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import (
    FieldError,
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
from kubeloop.api.meta.name_rules import check_dns1123_subdomain_with_underscore, range_message
from kubeloop.api.validation.pods.containers.compute_resources import validate_amounts, validate_container_resource_name
from kubeloop.api.validation.pods.containers.containers import (
    ContainerContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from kubeloop.api.validation.pods.containers.resources import validate_pod_resources
from kubeloop.api.validation.pods.scheduling import validate_affinity, validate_spread, validate_tolerations
from kubeloop.api.validation.pods.security import validate_pod_security_context
from kubeloop.api.validation.pods.volumes.volumes import Volumes, validate_volumes
from kubeloop.api.validation.pods.windows import every_container, validate_host_process, validate_os
from kubeloop.api.validation.shared.go_values import to_internal
from kubeloop.api.validation.shared.objectmeta import validate_labels
from kubeloop.api.validation.shared.scalars import (
    check_errors,
    validate_dns_label,
    validate_dns_subdomain,
    validate_legacy_ip,
    validate_qualified_name,
)

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_MAX_INT32: Final = 2**31 - 1
_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32
_SEARCHES_LENGTH: Final = 2048
_HOSTNAME_MAX: Final = 64
_WITHOUT_HOST_USERS: Final = "when `hostUsers` is false"
MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"
_NO_CONTEXT: Final = PodSecurityContext()
_NO_VOLUMES: Volumes = {}
_NO_CLAIMS: Set[str] = frozenset()

# Upstream's order of validating a pod's fields, after its volumes and containers.
_LOOKED_AT: Final = (
    "restartPolicy", "dnsPolicy", "nodeSelector", "securityContext", "shareProcessNamespace", "imagePullSecrets",
    "affinity", "dnsConfig", "readinessGates", "schedulingGates", "topologySpreadConstraints", "hostUsers",
    "hostnameOverride", "serviceAccountName", "nodeName", "activeDeadlineSeconds", "hostname", "subdomain",
    "tolerations", "hostAliases", "priorityClassName", "runtimeClassName", "preemptionPolicy", "overhead",
    "schedulingGroup",
)  # fmt: skip
_ORDER: Final[dict[str | int, int]] = {name: rank for rank, name in enumerate(_LOOKED_AT)}


def validate_pod_spec(spec: PodSpec, path: FieldPath, meta: ObjectMeta | None = None) -> FieldErrors:
    """Validate a pod spec; `meta` is the pod's own, and absent for templates."""
    errors: FieldErrors = []
    around = ContainerContext(spec, _NO_VOLUMES, _NO_CLAIMS)
    if spec.volumes:
        pod_name = meta.name if meta is not None else ""
        around.volumes, wrong = validate_volumes(spec.volumes, pod_name, path.child("volumes"))
        errors += wrong
    if spec.resource_claims:
        around.claims = {claim.name for claim in spec.resource_claims if claim.name}
        errors += _validate_claims(spec.resource_claims, meta, path.child("resourceClaims"))
    errors += validate_containers(around, path.child("containers"))
    if spec.init_containers:
        errors += validate_init_containers(around, path.child("initContainers"))
    if spec.ephemeral_containers:
        errors += validate_ephemeral_containers(around, path.child("ephemeralContainers"))
    if spec.resources is not None:
        errors += validate_pod_resources(spec, around.claims, path)
    found = _validate_behaviour(spec, path, in_pod=meta is not None)
    found += _validate_placement(spec, path)
    found += _validate_names(spec, path)
    errors += _in_order(found, path) if len(found) > 1 else found
    if spec.os is not None:
        errors += validate_os(spec, path)
    return errors + _validate_file_keys(spec, path) if _reads_files(spec) else errors


def _in_order(errors: FieldErrors, path: FieldPath) -> FieldErrors:
    """Sort errors in upstream's order of fields; an error without a rank stays behind its predecessor."""
    rank = 0
    ranked: list[tuple[int, FieldError]] = []
    for error in errors:
        at = error.path
        while at is not None and at.parent is not None and at.parent != path:
            at = at.parent
        rank = rank if at is None else _ORDER.get(at.step, rank)
        ranked.append((rank, error))
    return [error for _, error in sorted(ranked, key=itemgetter(0))]


def _validate_behaviour(spec: PodSpec, path: FieldPath, in_pod: bool) -> FieldErrors:
    """Validate the fields that control how the kubelet runs the pod: restarts, names, namespaces, security."""
    errors: FieldErrors = []
    if spec.host_network:
        errors += _validate_host_ports(spec, path.child("containers"), in_pod)
    if spec.restart_policy not in _RESTART_POLICIES:
        at = path.child("restartPolicy")
        policy = spec.restart_policy
        errors.append(not_supported(at, policy, _RESTART_POLICIES) if policy else required(at))
    if spec.dns_policy not in _DNS_POLICIES:
        at = path.child("dnsPolicy")
        errors.append(not_supported(at, spec.dns_policy, _DNS_POLICIES) if spec.dns_policy else required(at))
    if spec.security_context is not None and spec.security_context != _NO_CONTEXT:
        errors += validate_pod_security_context(spec.security_context, spec, path.child("securityContext"))
    if spec.share_process_namespace and spec.host_pid:
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(path.child("shareProcessNamespace"), True, detail))
    if spec.dns_config is not None or spec.dns_policy == "None":
        errors += _validate_dns(spec.dns_config, spec.dns_policy, path.child("dnsConfig"))
    errors += validate_host_process(spec, path)
    if spec.host_users is False:
        errors += _validate_own_users(spec, path)
    if spec.hostname_override is not None:
        errors += _validate_hostname_override(spec, spec.hostname_override, path.child("hostnameOverride"))
    seconds = spec.active_deadline_seconds
    if seconds is not None and not 1 <= seconds <= _MAX_INT32:
        errors.append(invalid(path.child("activeDeadlineSeconds"), seconds, range_message(1, _MAX_INT32)))
    if spec.overhead:
        errors += validate_amounts(spec.overhead, path.child("overhead", "limits"), validate_container_resource_name)
    return errors


def _validate_placement(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate the scheduling constraints of the pod."""
    errors: FieldErrors = []
    if spec.node_selector:
        errors += validate_labels(spec.node_selector, path.child("nodeSelector"))
    if spec.affinity is not None:
        errors += validate_affinity(spec.affinity, path.child("affinity"))
    for index, gate in enumerate(spec.readiness_gates):
        errors += validate_qualified_name(
            gate.condition_type, path.child("readinessGates").index(index).child("conditionType")
        )
    if spec.scheduling_gates:
        errors += _validate_scheduling_gates(spec, path.child("schedulingGates"))
    if spec.topology_spread_constraints:
        errors += validate_spread(spec.topology_spread_constraints, path.child("topologySpreadConstraints"))
    if spec.tolerations:
        errors += validate_tolerations(spec.tolerations, path.child("tolerations"))
    policy = spec.preemption_policy
    if policy is not None and policy not in PREEMPTION_POLICIES:
        at = path.child("preemptionPolicy")
        errors.append(not_supported(at, policy, PREEMPTION_POLICIES) if policy else required(at))
    group = spec.scheduling_group
    if group is not None:
        at = path.child("schedulingGroup", "podGroupName")
        if group.pod_group_name is None:
            errors.append(invalid(at, None, "must specify one of: `podGroupName`"))
        else:
            errors += validate_dns_subdomain(group.pod_group_name, at)
        if spec.eviction_responders:
            errors.append(forbidden(path.child("schedulingGroup"), "may not be set when evictionResponders is set"))
    return errors


def _validate_names(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate references to other objects, and the pod's hostname and subdomain."""
    errors: FieldErrors = []
    for name, value in (
        ("serviceAccountName", spec.service_account_name),
        ("nodeName", spec.node_name),
        ("priorityClassName", spec.priority_class_name),
    ):
        if value:
            errors += validate_dns_subdomain(value, path.child(name))
    if spec.runtime_class_name is not None:
        errors += validate_dns_subdomain(spec.runtime_class_name, path.child("runtimeClassName"))
    if spec.hostname:
        errors += validate_dns_label(spec.hostname, path.child("hostname"))
    if spec.subdomain:
        errors += validate_dns_label(spec.subdomain, path.child("subdomain"))
    for index, alias in enumerate(spec.host_aliases):
        at = path.child("hostAliases").index(index)
        errors += validate_legacy_ip(alias.ip, at.child("ip"))
        for number, hostname in enumerate(alias.hostnames):
            errors += validate_dns_subdomain(hostname, at.child("hostnames").index(number))
    return errors


def _validate_claims(claims: tuple[PodResourceClaim, ...], meta: ObjectMeta | None, path: FieldPath) -> FieldErrors:
    if meta is not None and MIRROR_POD_ANNOTATION in meta.annotations:
        return [forbidden(FieldPath(""), "static pods do not support resource claims")]
    errors: FieldErrors = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        at = path.index(index)
        if not claim.name:
            errors.append(required(at.child("name")))
        elif claim.name in names:
            errors.append(duplicate(at.child("name"), claim.name))
        else:
            errors += validate_dns_label(claim.name, at.child("name"))
            names.add(claim.name)
        direct, template = claim.resource_claim_name, claim.resource_claim_template_name
        if direct is not None and template is not None:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(invalid(at, to_internal(claim), detail))
        if direct is None and template is None:
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(invalid(at, to_internal(claim), detail))
        if direct is not None:
            errors += validate_dns_subdomain(direct, at.child("resourceClaimName"))
        if template is not None:
            errors += validate_dns_subdomain(template, at.child("resourceClaimTemplateName"))
    return errors


def _validate_host_ports(spec: PodSpec, path: FieldPath, in_pod: bool) -> FieldErrors:
    errors: FieldErrors = []
    for index, container in enumerate(spec.containers or ()):
        for number, port in enumerate(container.ports):
            if port.host_port != port.container_port and (in_pod or port.host_port):
                at = path.index(index).child("ports").index(number).child("hostPort")
                errors.append(invalid(at, port.host_port, "must match `containerPort` when `hostNetwork` is true"))
    return errors


def _validate_dns(config: PodDNSConfig | None, policy: str, path: FieldPath) -> FieldErrors:
    if config is None:
        return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
    if policy == "None" and not config.nameservers:
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        return [required(path.child("nameservers"), detail)]
    errors: FieldErrors = []
    at = path.child("nameservers")
    if len(config.nameservers) > _NAMESERVERS_MAX:
        errors.append(invalid(at, config.nameservers, f"must not have more than {_NAMESERVERS_MAX} nameservers"))
    for index, server in enumerate(config.nameservers):
        errors += validate_legacy_ip(server, at.index(index))
    at = path.child("searches")
    if len(config.searches) > _SEARCHES_MAX:
        errors.append(invalid(at, config.searches, f"must not have more than {_SEARCHES_MAX} search paths"))
    if len(" ".join(config.searches)) > _SEARCHES_LENGTH:
        detail = f"must not have more than {_SEARCHES_LENGTH} characters (including spaces) in the search list"
        errors.append(invalid(at, config.searches, detail))
    for index, search in enumerate(config.searches):
        if search != ".":
            errors += check_errors(check_dns1123_subdomain_with_underscore, search.removesuffix("."), at.index(index))
    for index, option in enumerate(config.options):
        if not option.name:
            errors.append(required(path.child("options").index(index), "must not be empty"))
    return errors


def _validate_own_users(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate that a pod with its own user namespace shares no other namespace with its node."""
    errors: FieldErrors = []
    for name, shared in (("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)):
        if shared:
            errors.append(forbidden(path.child(name), _WITHOUT_HOST_USERS))
    for container, at in every_container(spec, path):
        if container.volume_devices:
            errors.append(forbidden(at.child("volumeDevices"), _WITHOUT_HOST_USERS))
    return errors


def _validate_hostname_override(spec: PodSpec, hostname: str, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if spec.set_hostname_as_fqdn:
        errors.append(forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
    if spec.host_network:
        errors.append(forbidden(path, "may not be specified when hostNetwork is true"))
    if len(hostname) > _HOSTNAME_MAX:
        errors.append(too_long(path, _HOSTNAME_MAX))
    return errors + validate_dns_subdomain(hostname, path)


def _validate_scheduling_gates(spec: PodSpec, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.scheduling_gates):
        errors += validate_qualified_name(gate.name, path.index(index))
        if gate.name in seen:
            errors.append(duplicate(path.index(index), gate.name))
        seen.add(gate.name)
    return errors


def _reads_files(spec: PodSpec) -> bool:
    groups: tuple[tuple[Any, ...], ...] = (spec.containers or (), spec.init_containers, spec.ephemeral_containers)
    for variables in (container.env for group in groups for container in group):
        for variable in variables:
            if variable.value_from is not None and variable.value_from.file_key_ref is not None:
                return True
    return False


def _validate_file_keys(spec: PodSpec, path: FieldPath) -> FieldErrors:
    """Validate that variables read from files use an emptyDir that init containers can write."""
    errors: FieldErrors = []
    for container, at in every_container(spec, path):
        for index, variable in enumerate(container.env):
            if variable.value_from is None or variable.value_from.file_key_ref is None:
                continue
            name = variable.value_from.file_key_ref.volume_name
            where = at.child("env").index(index).child("valueFrom", "fileKeyRef", "volumeName")
            volume = next((one for one in reversed(spec.volumes) if one.name == name), None)
            if volume is None:
                errors.append(not_found(where, name))
            elif volume.empty_dir is None:
                errors.append(invalid(where, name, "referenced volume must be of type emptyDir"))
    return errors

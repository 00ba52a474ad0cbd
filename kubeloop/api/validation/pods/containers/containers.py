# SPDX-License-Identifier: Apache-2.0
"""Validation of regular, init and ephemeral containers."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    ContainerResizePolicy,
    ContainerRestartRule,
    EphemeralContainer,
    PodSpec,
)
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from kubeloop.api.meta.name_rules import check_port_name, check_port_number
from kubeloop.api.validation.pods.containers.compute_resources import validate_requirements
from kubeloop.api.validation.pods.containers.env import validate_env, validate_env_from
from kubeloop.api.validation.pods.containers.handlers import validate_lifecycle, validate_probes
from kubeloop.api.validation.pods.security import validate_security_context
from kubeloop.api.validation.pods.volumes.mounts import validate_devices, validate_mounts
from kubeloop.api.validation.pods.volumes.volumes import Volumes
from kubeloop.api.validation.shared.cached_names import label_messages
from kubeloop.api.validation.shared.scalars import validate_dns_label

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESTART_ACTIONS: Final = ("Restart", "RestartAllContainers")
_NOT_FOR_INIT: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_FOR_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_RULES_MAX: Final = 20
_EXIT_CODES_MAX: Final = 255
# In upstream's order; the names are what it derives from its own field names.
_EPHEMERAL_FORBIDDEN: Final = (
    ("ports", "ports"), ("resources", "resources"), ("resize_policy", "resizePolicy"),
    ("restart_policy", "restartPolicy"), ("restart_policy_rules", "restartPolicyRules"),
    ("liveness_probe", "livenessProbe"), ("readiness_probe", "readinessProbe"), ("startup_probe", "startupProbe"),
    ("lifecycle", "lifecycle"),
)  # fmt: skip


@dataclass(slots=True)
class ContainerContext:
    """Parts of the pod that the rules of its containers need."""

    spec: PodSpec
    volumes: Volumes
    claims: Set[str]

    @property
    def host_users(self) -> bool:
        """True if the pod uses the host's user namespace."""
        return self.spec.host_users is not False


def validate_containers(around: ContainerContext, path: FieldPath) -> FieldErrors:
    """Validate the regular containers of a pod."""
    containers = around.spec.containers
    if not containers:
        return [required(path)]
    errors: FieldErrors = []
    names: set[str] = set()
    grace = around.spec.termination_grace_period_seconds
    for index, container in enumerate(containers):
        at = path.index(index)
        errors += _validate_any(container, around, at)
        if container.name in names:
            errors.append(duplicate(at.child("name"), container.name))
        names.add(container.name)
        if container.lifecycle is not None:
            errors += validate_lifecycle(container.lifecycle, grace, at.child("lifecycle"), around.spec.os)
        errors += validate_probes(container, grace, at)
        if container.restart_policy is not None or container.restart_policy_rules:
            errors += _validate_restart(container, at)
    return errors + validate_host_port_conflicts(containers, path)


def validate_init_containers(around: ContainerContext, path: FieldPath) -> FieldErrors:
    """Validate the init containers of a pod."""
    errors: FieldErrors = []
    names = {container.name for container in around.spec.containers or ()}
    for index, container in enumerate(around.spec.init_containers):
        at = path.index(index)
        errors += _validate_any(container, around, at)
        if container.restart_policy is not None or container.restart_policy_rules:
            errors += _validate_init_restart(container, at)
        if container.name in names:
            errors.append(duplicate(at.child("name"), container.name))
        elif container.name:
            names.add(container.name)
        # They run in sequence, so only ports of the same container conflict. Upstream calls each the first.
        errors += validate_host_port_conflicts((container,), path)
        if container.restart_policy == "Always":
            grace = around.spec.termination_grace_period_seconds
            if container.lifecycle is not None:
                errors += validate_lifecycle(container.lifecycle, grace, at.child("lifecycle"), around.spec.os)
            errors += validate_probes(container, grace, at)
        else:
            errors += _validate_one_shot(container, at)
    return errors


def _validate_one_shot(container: Container, path: FieldPath) -> FieldErrors:
    """Validate that a non-restartable init container has no probes or lifecycle hooks."""
    errors: FieldErrors = []
    for name, value in (
        ("lifecycle", container.lifecycle),
        ("livenessProbe", container.liveness_probe),
        ("readinessProbe", container.readiness_probe),
        ("startupProbe", container.startup_probe),
    ):
        if value is not None:
            errors.append(forbidden(path.child(name), _NOT_FOR_INIT))
    for index, policy in enumerate(container.resize_policy):
        if policy.restart_policy == "RestartContainer":
            detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            at = path.child("resizePolicy").index(index).child("restartPolicy")
            errors.append(invalid(at, policy.restart_policy, detail))
    return errors


def validate_ephemeral_containers(around: ContainerContext, path: FieldPath) -> FieldErrors:
    """Validate the ephemeral containers of a pod."""
    errors: FieldErrors = []
    spec = around.spec
    others = {container.name for container in (*(spec.containers or ()), *spec.init_containers)}
    names = set(others)
    for index, container in enumerate(spec.ephemeral_containers):
        at = path.index(index)
        errors += _validate_any(container, around, at)
        errors += validate_image_text(container, at)
        if container.name in names:
            errors.append(duplicate(at.child("name"), container.name))
        names.add(container.name)
        target = container.target_container_name
        if target and target not in others:
            errors.append(not_found(at.child("targetContainerName"), target))
        for attribute, name in _EPHEMERAL_FORBIDDEN:
            value = getattr(container, attribute)
            if value and value != _NO_RESOURCES:
                errors.append(forbidden(at.child(name), _NOT_FOR_EPHEMERAL))
        for number, mount in enumerate(container.volume_mounts):
            for name, text in (("subPath", mount.sub_path), ("subPathExpr", mount.sub_path_expr)):
                if text:
                    errors.append(forbidden(at.child("volumeMounts").index(number).child(name), _NOT_FOR_EPHEMERAL))
    return errors


_NO_RESOURCES: Final = EphemeralContainer().resources


def validate_image_text(container: Container | EphemeralContainer, path: FieldPath) -> FieldErrors:
    """Validate that an image has no surrounding space; templates may have it, pods may not."""
    if container.image == container.image.strip():
        return []
    return [invalid(path.child("image"), container.image, "must not have leading or trailing whitespace")]


def _validate_any(container: Container | EphemeralContainer, around: ContainerContext, path: FieldPath) -> FieldErrors:
    """Validate the fields that containers of every type have."""
    errors: FieldErrors = []
    if not container.name:
        errors.append(required(path.child("name")))
    elif label_messages(container.name):
        errors += validate_dns_label(container.name, path.child("name"))
    if not container.image:
        errors.append(required(path.child("image")))
    if container.termination_message_policy not in _MESSAGE_POLICIES:
        policy, at = container.termination_message_policy, path.child("terminationMessagePolicy")
        errors.append(not_supported(at, policy, _MESSAGE_POLICIES) if policy else required(at))
    if container.ports:
        errors += _validate_ports(container.ports, path.child("ports"))
    if container.env:
        errors += validate_env(container.env, path.child("env"))
    if container.env_from:
        errors += validate_env_from(container.env_from, path.child("envFrom"))
    if container.volume_mounts:
        errors += validate_mounts(container, around.volumes, path.child("volumeMounts"))
    if container.volume_devices:
        errors += validate_devices(container, around.volumes, path.child("volumeDevices"))
    if container.image_pull_policy not in _PULL_POLICIES:
        policy, at = container.image_pull_policy, path.child("imagePullPolicy")
        errors.append(not_supported(at, policy, _PULL_POLICIES) if policy else required(at))
    resources = container.resources
    if resources.limits or resources.requests or resources.claims:
        errors += validate_requirements(resources, around.claims, path.child("resources"))
    if container.resize_policy:
        pod_policy = around.spec.restart_policy
        errors += _validate_resize_policy(container.resize_policy, pod_policy, path.child("resizePolicy"))
    if container.security_context is not None:
        at = path.child("securityContext")
        errors += validate_security_context(container.security_context, around.host_users, at)
    return errors


def _validate_ports(ports: tuple[ContainerPort, ...], path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        if port.name:
            if messages := check_port_name(port.name):
                errors += [invalid(path.index(index).child("name"), port.name, message) for message in messages]
            elif port.name in names:
                errors.append(duplicate(path.index(index).child("name"), port.name))
            else:
                names.add(port.name)
        if not port.container_port:
            errors.append(required(path.index(index).child("containerPort")))
        elif messages := check_port_number(port.container_port):
            errors.append(invalid(path.index(index).child("containerPort"), port.container_port, messages[0]))
        if port.host_port and (messages := check_port_number(port.host_port)):
            errors.append(invalid(path.index(index).child("hostPort"), port.host_port, messages[0]))
        if port.protocol not in PROTOCOLS:
            at = path.index(index).child("protocol")
            errors.append(not_supported(at, port.protocol, PROTOCOLS) if port.protocol else required(at))
    return errors


def validate_host_port_conflicts(containers: tuple[Container, ...], path: FieldPath) -> FieldErrors:
    """Return the errors for host ports that occur more than once."""
    errors: FieldErrors = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not port.host_port:
                continue
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if key in taken:
                errors.append(duplicate(path.index(index).child("ports").index(number).child("hostPort"), key))
            taken.add(key)
    return errors


def _validate_resize_policy(
    policies: tuple[ContainerResizePolicy, ...], pod_policy: str, path: FieldPath
) -> FieldErrors:
    errors: FieldErrors = []
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        name, restart = policy.resource_name, policy.restart_policy
        if name in seen:
            errors.append(duplicate(path.index(index), name))
        seen.add(name)
        if name not in ("cpu", "memory"):
            errors.append(not_supported(path, name, ("cpu", "memory")) if name else required(path))
        if restart not in ("NotRequired", "RestartContainer"):
            choices = ("NotRequired", "RestartContainer")
            errors.append(not_supported(path, restart, choices) if restart else required(path))
        if pod_policy == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))
    return errors


def _validate_init_restart(container: Container, path: FieldPath) -> FieldErrors:
    if container.restart_policy is None:
        detail = "must specify restartPolicy when restart rules are used"
        return [required(path.child("restartPolicy"), detail)]
    return _validate_restart(container, path)


def _validate_restart(container: Container, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    policy, rules = container.restart_policy, container.restart_policy_rules
    at = path.child("restartPolicy")
    if policy is None:
        errors.append(required(at, "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(at, policy, _RESTART_POLICIES))
    if len(rules) > _RULES_MAX:
        errors.append(too_many(path.child("restartPolicyRules"), len(rules), _RULES_MAX))
    for index, rule in enumerate(rules):
        errors += _validate_restart_rule(rule, path.child("restartPolicyRules").index(index))
    return errors


def _validate_restart_rule(rule: ContainerRestartRule, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if rule.action not in _RESTART_ACTIONS:
        errors.append(not_supported(path.child("action"), rule.action, _RESTART_ACTIONS))
    codes = rule.exit_codes
    if codes is None:
        return [*errors, required(path.child("exitCodes"), "must be specified")]
    if codes.operator not in ("In", "NotIn"):
        errors.append(not_supported(path.child("exitCodes", "operator"), codes.operator, ("In", "NotIn")))
    if len(codes.values) > _EXIT_CODES_MAX:
        errors.append(too_many(path.child("exitCodes", "values"), len(codes.values), _EXIT_CODES_MAX))
    return errors

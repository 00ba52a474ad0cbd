# SPDX-License-Identifier: Apache-2.0
"""Warnings about pods and pod templates. Optimized for the common case without any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from kubeloop.api.generated.core_v1 import Affinity, Pod, PodAffinity, PodAntiAffinity, PodSpec, PodTemplateSpec, Volume
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldPath, quote
from kubeloop.api.meta.name_rules import check_dns1123_label
from kubeloop.api.strategy.pods.app_armor import ANNOTATION_PREFIX, profile_of
from kubeloop.api.warnings.addresses import ip_warnings
from kubeloop.api.warnings.amounts import fraction_warnings, is_fractional
from kubeloop.api.warnings.containers import AnyContainer, container_warnings, containers_with_paths, port_warnings
from kubeloop.api.warnings.node_labels import DEPRECATED, term_warnings
from kubeloop.api.warnings.projections import has_no_overlaps, overlap_warnings
from kubeloop.api.warnings.rules import Warnings

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_DEAD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
}
_SECCOMP: Final = "seccomp.security.alpha.kubernetes.io/pod"
_CONTAINER_SECCOMP: Final = "container.seccomp.security.alpha.kubernetes.io/"
_USE_SECCOMP_FIELD: Final = 'non-functional in v1.27+; use the "seccompProfile" field instead'
_USE_APP_ARMOR_FIELD: Final = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_GONE: Final = {
    "photon_persistent_disk": "deprecated in v1.11, non-functional in v1.16+",
    "git_repo": "deprecated in v1.11, and disabled by default in v1.33+",
    "scale_io": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
_WIRE_NAMES: Final = {
    "photon_persistent_disk": "photonPersistentDisk",
    "git_repo": "gitRepo",
    "scale_io": "scaleIO",
    "storageos": "storageOS",
}
# More warnings than any response carries.
_MAX_WARNINGS: Final = 1_000
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"


def template_warnings(template: PodTemplateSpec, path: FieldPath) -> list[str]:
    """Return the warnings about a pod template."""
    if _is_ordinary(template.spec, template.metadata):
        return []
    annotations = path.child("metadata", "annotations")
    return [*islice(_of_spec(template.spec, template.metadata, path.child("spec"), annotations, True), _MAX_WARNINGS)]


def _is_ordinary(spec: PodSpec, meta: ObjectMeta) -> bool:
    """Return True if a quick check shows that there are no warnings, as for most pods."""
    if (
        meta.annotations
        or spec.affinity is not None
        or spec.node_selector
        or spec.topology_spread_constraints
        or spec.image_pull_secrets
        or spec.host_aliases
        or spec.overhead
        or spec.init_containers
        or spec.ephemeral_containers
        or spec.dns_config is not None
        or (spec.termination_grace_period_seconds or 0) < 0
    ):
        return False
    for container in spec.containers or ():
        if len(container.env) > 1 or container.ports:
            return False
        for amounts in (container.resources.limits, container.resources.requests):
            if amounts and (is_fractional(amounts.get("memory", "0")) or "ephemeral-storage" in amounts):
                return False
    for volume in spec.volumes:
        projected = volume.projected
        if projected is not None:
            if not has_no_overlaps(projected.sources or ()):
                return False
        elif volume.empty_dir is None and volume.persistent_volume_claim is None:
            return False
    return True


def _of_spec(
    spec: PodSpec, meta: ObjectMeta, path: FieldPath, annotations: FieldPath, is_template: bool = False
) -> Iterator[str]:
    yield from _scheduling(spec, path)
    for key, message in _DEAD_ANNOTATIONS.items() if meta.annotations else ():
        if key in meta.annotations:
            yield f"{annotations.key(key)}: {message}"
    if spec.volumes:
        yield from _volumes(spec.volumes, path.child("volumes"))
    if spec.image_pull_secrets or len(spec.host_aliases) > 1:
        yield from _doubles(spec, path)
    if spec.overhead:
        yield from fraction_warnings(path.child("overhead"), spec.overhead, "memory", "ephemeral-storage")
    containers = containers_with_paths(spec, path)
    if meta.annotations:
        yield from _profiles(spec, meta, [each for each, _ in containers], annotations, is_template)
    for container, at in containers:
        if container.env or container.resources.limits or container.resources.requests:
            yield from container_warnings(container, at)
    if any(container.ports for container, _ in containers):
        yield from port_warnings(containers)
    if spec.termination_grace_period_seconds is not None and spec.termination_grace_period_seconds < 0:
        at = path.child("terminationGracePeriodSeconds")
        yield f"{at}: must be >= 0; negative values are invalid and will be treated as 1"
    if spec.affinity is not None:
        yield from _affinities(spec.affinity, path.child("affinity"))
    for i, server in enumerate(spec.dns_config.nameservers) if spec.dns_config is not None else ():
        yield from ip_warnings(path.child("dnsConfig", "nameservers").index(i), server)
    for i, alias in enumerate(spec.host_aliases):
        yield from ip_warnings(path.child("hostAliases").index(i).child("ip"), alias.ip)


def _scheduling(spec: PodSpec, path: FieldPath) -> Iterator[str]:
    for key in spec.node_selector:
        if key in DEPRECATED:
            yield f"{path.child('nodeSelector').key(key)}: {DEPRECATED[key]}"
    nodes = spec.affinity.node_affinity if spec.affinity is not None else None
    if nodes is not None:
        at = path.child("affinity", "nodeAffinity")
        if nodes.required_during_scheduling_ignored_during_execution is not None:
            terms = nodes.required_during_scheduling_ignored_during_execution.node_selector_terms or ()
            for i, term in enumerate(terms):
                yield from term_warnings(term, at.child(_REQUIRED, "nodeSelectorTerms").index(i))
        for i, preferred in enumerate(nodes.preferred_during_scheduling_ignored_during_execution):
            where = at.child(_PREFERRED).index(i).child("preference")
            yield from term_warnings(preferred.preference, where, check_values=True)
    for i, constraint in enumerate(spec.topology_spread_constraints):
        at = path.child("topologySpreadConstraints").index(i)
        if constraint.topology_key in DEPRECATED:
            key = constraint.topology_key
            yield f"{at.child('topologyKey')}: {key} is {DEPRECATED[key]}"
        if constraint.label_selector is None:
            yield f"{at.child('labelSelector')}: {_NO_SELECTOR}"


def _volumes(volumes: tuple[Volume, ...], path: FieldPath) -> Iterator[str]:
    for i, volume in enumerate(volumes):
        for attribute, message in _GONE.items():
            if getattr(volume, attribute) is not None:
                yield f"{path.index(i).child(_WIRE_NAMES.get(attribute, attribute))}: {message}"
        if volume.ephemeral is not None and volume.ephemeral.volume_claim_template is not None:
            resources = volume.ephemeral.volume_claim_template.spec.resources
            at = path.index(i).child("ephemeral", "volumeClaimTemplate", "spec", "resources")
            yield from fraction_warnings(at.child("requests"), resources.requests, "storage")
            yield from fraction_warnings(at.child("limits"), resources.limits, "storage")
    for volume in volumes:
        yield from overlap_warnings(volume)


def _doubles(spec: PodSpec, path: FieldPath) -> Iterator[str]:
    seen: set[str] = set()
    for i, alias in enumerate(spec.host_aliases):
        if alias.ip in seen:
            yield f"{path.child('hostAliases').index(i).child('ip')}: duplicate ip {quote(alias.ip)}"
        seen.add(alias.ip)
    names: set[str] = set()
    secrets = path.child("imagePullSecrets")
    for i, secret in enumerate(spec.image_pull_secrets):
        if secret.name in names:
            yield f"{secrets.index(i).child('name')}: duplicate name {quote(secret.name)}"
        names.add(secret.name)
    for i, secret in enumerate(spec.image_pull_secrets):
        if not secret.name:
            yield f"{secrets.index(i).child('name')}: invalid empty name {quote('')}"


def _profiles(
    spec: PodSpec, meta: ObjectMeta, containers: list[AnyContainer], annotations: FieldPath, is_template: bool
) -> Iterator[str]:
    """Yield warnings about profile annotations: seccomp's have no effect, AppArmor's have a field."""
    whole = spec.security_context
    if _SECCOMP in meta.annotations and (whole is None or whole.seccomp_profile is None):
        yield f"{annotations.key(_SECCOMP)}: {_USE_SECCOMP_FIELD}"
    armor = whole.app_armor_profile if whole is not None else None
    for container in containers:
        context = container.security_context
        key = _CONTAINER_SECCOMP + container.name
        if key in meta.annotations and (context is None or context.seccomp_profile is None):
            yield f"{annotations.key(key)}: {_USE_SECCOMP_FIELD}"
        key = ANNOTATION_PREFIX + container.name
        if key in meta.annotations:
            field = context.app_armor_profile if context is not None else None
            meant = profile_of(meta.annotations[key])
            # The strategy converted a pod's annotation to this very field object; a client's own field is another one.
            taken = field is None and (armor is None or armor != meant) if is_template else field is meant
            if taken:
                yield f"{annotations.key(key)}: {_USE_APP_ARMOR_FIELD}"


def _affinities(affinity: Affinity, path: FieldPath) -> Iterator[str]:
    sides: tuple[tuple[str, PodAffinity | PodAntiAffinity | None], ...] = (
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    )
    for name, side in sides:
        if side is None:
            continue
        at = path.child(name)
        for i, term in enumerate(side.required_during_scheduling_ignored_during_execution):
            if term.label_selector is None:
                yield f"{at.child(_REQUIRED).index(i).child('labelSelector')}: {_NO_SELECTOR}"
        for i, weighted in enumerate(side.preferred_during_scheduling_ignored_during_execution):
            if weighted.pod_affinity_term.label_selector is None:
                where = at.child(_PREFERRED).index(i).child("podAffinityTerm", "labelSelector")
                yield f"{where}: {_NO_SELECTOR}"


_SPEC = FieldPath("spec")
_ANNOTATIONS = FieldPath("metadata").child("annotations")


def _created(pod: Pod) -> Sequence[str]:
    said = name_warnings(pod.metadata.name)
    if not _is_ordinary(pod.spec, pod.metadata):
        said += islice(_of_spec(pod.spec, pod.metadata, _SPEC, _ANNOTATIONS), _MAX_WARNINGS)
    return said


def name_warnings(name: str) -> list[str]:
    """Return the warnings about the name of a new pod: all of them for a pod whose other fields cause none."""
    if problems := check_dns1123_label(name):
        return [
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{' '.join(problems)}]"
        ]
    return []


def _reported(new: Pod, old: Pod) -> list[str]:
    status = FieldPath("status")
    lists = (
        ("podIPs", [each.ip for each in new.status.pod_ips]),
        ("hostIPs", [each.ip for each in new.status.host_ips]),
    )
    return [
        warning
        for name, addresses in lists
        for i, address in enumerate(addresses)
        for warning in ip_warnings(status.child(name).index(i).child("ip"), address)
    ]


POD = Warnings(create=_created, status=_reported)

# SPDX-License-Identifier: Apache-2.0
"""Checks that the restricted level adds, which enforce pod hardening."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.api.generated.core_v1 import PodSpec, Volume
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.apiserver.admission.plugins.pod_security.baseline import seccomp
from kubeloop.apiserver.admission.plugins.pod_security.findings import (
    Check,
    PodSecurityViolation,
    containers,
    noun_with_names,
    pluralize,
    quoted,
    security_contexts,
    setters,
)

_HARMLESS_VOLUMES = (
    "config_map",
    "csi",
    "downward_api",
    "empty_dir",
    "ephemeral",
    "image",
    "persistent_volume_claim",
    "projected",
    "secret",
)
# Attributes and their API names, in the order in which they are checked.
_OTHER_VOLUMES = {
    "host_path": "hostPath",
    "gce_persistent_disk": "gcePersistentDisk",
    "aws_elastic_block_store": "awsElasticBlockStore",
    "git_repo": "gitRepo",
    "nfs": "nfs",
    "iscsi": "iscsi",
    "glusterfs": "glusterfs",
    "rbd": "rbd",
    "flex_volume": "flexVolume",
    "cinder": "cinder",
    "cephfs": "cephfs",
    "flocker": "flocker",
    "fc": "fc",
    "azure_file": "azureFile",
    "vsphere_volume": "vsphereVolume",
    "quobyte": "quobyte",
    "azure_disk": "azureDisk",
    "photon_persistent_disk": "photonPersistentDisk",
    "portworx_volume": "portworxVolume",
    "scale_io": "scaleIO",
    "storageos": "storageos",
}


def unless_windows(check: Check) -> Check:
    """Return the check limited to pods that are not Windows pods."""

    def checked(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
        return None if spec.os is not None and spec.os.name == "windows" else check(meta, spec)

    return checked


def unless_user_namespace(check: Check) -> Check:
    """Return the check limited to pods in the host user namespace: root in another one is not root outside."""

    def checked(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
        return None if spec.host_users is False else check(meta, spec)

    return checked


def privilege_escalation(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that all containers set allowPrivilegeEscalation=false."""
    hardened = {name for name, context in security_contexts(spec) if context.allow_privilege_escalation is False}
    found = _all_but(spec, hardened)
    detail = f"{noun_with_names('container', found)} must set securityContext.allowPrivilegeEscalation=false"
    return PodSecurityViolation("allowPrivilegeEscalation != false", detail) if found else None


def capabilities(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that all containers drop ALL and add at most NET_BIND_SERVICE."""
    dropping: set[str] = set()
    adding: dict[str, list[str]] = {}
    for name, context in security_contexts(spec):
        if context.capabilities is None:
            continue
        if "ALL" in context.capabilities.drop:
            dropping.add(name)
        added = [capability for capability in context.capabilities.add if capability != "NET_BIND_SERVICE"]
        if added:
            adding[name] = added
    details = []
    keeping = _all_but(spec, dropping)
    if keeping:
        details.append(f'{noun_with_names("container", keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        added = sorted({capability for more in adding.values() for capability in more})
        details.append(
            f"{noun_with_names('container', list(adding))} must not include {quoted(added)}"
            " in securityContext.capabilities.add"
        )
    return PodSecurityViolation("unrestricted capabilities", "; ".join(details)) if details else None


def volume_types(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that only allowed volume types are used."""
    found = {
        volume.name: _type_of(volume)
        for volume in spec.volumes
        if all(getattr(volume, field) is None for field in _HARMLESS_VOLUMES)
    }
    if not found:
        return None
    kinds = sorted(set(found.values()))
    use = "uses" if len(found) == 1 else "use"
    return PodSecurityViolation(
        "restricted volume types",
        f"{noun_with_names('volume', list(found))} {use} {pluralize('restricted volume type', kinds)} {quoted(kinds)}",
    )


def run_as_non_root(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that pod or containers set runAsNonRoot=true."""
    of_pod = spec.security_context.run_as_non_root if spec.security_context is not None else None
    said = {
        name: context.run_as_non_root
        for name, context in security_contexts(spec)
        if context.run_as_non_root is not None
    }
    refusing = [name for name, value in said.items() if not value]
    if of_pod is False or refusing:
        who = setters(of_pod is False, refusing)
        return PodSecurityViolation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    silent = [] if of_pod else _all_but(spec, said)
    detail = f"pod or {noun_with_names('container', silent)} must set securityContext.runAsNonRoot=true"
    return PodSecurityViolation("runAsNonRoot != true", detail) if silent else None


def run_as_user(_meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that runAsUser is not 0."""
    found = [name for name, context in security_contexts(spec) if context.run_as_user == 0]
    pod_too = spec.security_context is not None and spec.security_context.run_as_user == 0
    detail = f"{setters(pod_too, found)} must not set runAsUser=0"
    return PodSecurityViolation("runAsUser=0", detail) if found or pod_too else None


def seccomp_required(meta: ObjectMeta, spec: PodSpec) -> PodSecurityViolation | None:
    """Check that a seccomp profile is set for every container."""
    found = seccomp(meta, spec)
    if found is not None or (spec.security_context is not None and spec.security_context.seccomp_profile is not None):
        return found
    silent = _all_but(spec, {name for name, context in security_contexts(spec) if context.seccomp_profile is not None})
    detail = (
        f"pod or {noun_with_names('container', silent)} must set securityContext.seccompProfile.type "
        'to "RuntimeDefault" or "Localhost"'
    )
    return PodSecurityViolation("seccompProfile", detail) if silent else None


def _all_but(spec: PodSpec, names: set[str] | dict[str, bool]) -> Sequence[str]:
    return [container.name for container in containers(spec) if container.name not in names]


def _type_of(volume: Volume) -> str:
    return next((name for field, name in _OTHER_VOLUMES.items() if getattr(volume, field) is not None), "unknown")

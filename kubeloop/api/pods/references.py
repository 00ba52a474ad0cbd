# SPDX-License-Identifier: Apache-2.0
"""Objects that a pod or persistent volume refers to, which the pod's node must read to run it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"

# Volume sources with a reference to a secret, and the attribute that holds it.
_SECRET_REFERENCES = (
    ("cephfs", "secret_ref"),
    ("cinder", "secret_ref"),
    ("flex_volume", "secret_ref"),
    ("rbd", "secret_ref"),
    ("scale_io", "secret_ref"),
    ("iscsi", "secret_ref"),
    ("storageos", "secret_ref"),
)
# Secrets of a CSI volume that nodes use; the others are for controllers.
_CSI_NODE_SECRETS = ("node_publish_secret_ref", "node_stage_secret_ref", "node_expand_secret_ref")


class ReferencedObject(NamedTuple):
    """Reference to an object by its plural."""

    plural: str
    namespace: str
    name: str


def references_of(pod: Any) -> frozenset[ReferencedObject]:
    """Return all objects that a pod's node may read for it.

    A mirror pod grants no rights, because its node writes it.
    """
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return frozenset()
    namespace = pod.metadata.namespace
    found = {ReferencedObject(plural, namespace, name) for plural, name in iter_reference_names(pod) if name}
    return frozenset(found)


def iter_reference_names(pod: Any) -> Iterator[tuple[str, str]]:
    """Yield the plural and name of every object in its namespace that a pod refers to; names may be empty."""
    spec = pod.spec
    yield "serviceaccounts", spec.service_account_name
    for secret in spec.image_pull_secrets:
        yield "secrets", secret.name
    for containers in (spec.init_containers, spec.containers or (), spec.ephemeral_containers):
        for container in containers:
            yield from _in_container(container)
    for volume in spec.volumes:
        yield from _in_volume(volume, pod.metadata.name)
    statuses = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
    for claim in spec.resource_claims:
        yield "resourceclaims", claim.resource_claim_name or statuses.get(claim.name) or ""
    if pod.status.extended_resource_claim_status is not None:
        yield "resourceclaims", pod.status.extended_resource_claim_status.resource_claim_name


def _in_container(container: Any) -> Iterator[tuple[str, str]]:
    for source in container.env_from:
        if source.secret_ref is not None:
            yield "secrets", source.secret_ref.name
        if source.config_map_ref is not None:
            yield "configmaps", source.config_map_ref.name
    for variable in container.env:
        value = variable.value_from
        if value is not None and value.secret_key_ref is not None:
            yield "secrets", value.secret_key_ref.name
        if value is not None and value.config_map_key_ref is not None:
            yield "configmaps", value.config_map_key_ref.name


def _in_volume(volume: Any, pod_name: str) -> Iterator[tuple[str, str]]:
    if volume.secret is not None:
        yield "secrets", volume.secret.secret_name
    if volume.config_map is not None:
        yield "configmaps", volume.config_map.name
    if volume.azure_file is not None:
        yield "secrets", volume.azure_file.secret_name
    if volume.csi is not None and volume.csi.node_publish_secret_ref is not None:
        yield "secrets", volume.csi.node_publish_secret_ref.name
    for source_name, reference in _SECRET_REFERENCES:
        source = getattr(volume, source_name)
        if source is not None and getattr(source, reference) is not None:
            yield "secrets", getattr(source, reference).name
    if volume.projected is not None:
        for part in volume.projected.sources or ():
            if part.secret is not None:
                yield "secrets", part.secret.name
            if part.config_map is not None:
                yield "configmaps", part.config_map.name
    if volume.persistent_volume_claim is not None:
        yield "persistentvolumeclaims", volume.persistent_volume_claim.claim_name
    elif volume.ephemeral is not None:
        yield "persistentvolumeclaims", f"{pod_name}-{volume.name}"


def secrets_of_volume(volume: Any) -> Iterator[ReferencedObject]:
    """Yield the secrets that a node needs to mount a persistent volume."""
    spec = volume.spec
    home = spec.claim_ref.namespace if spec.claim_ref is not None else ""
    if spec.azure_file is not None:
        yield ReferencedObject("secrets", spec.azure_file.secret_namespace or home, spec.azure_file.secret_name)
    for source_name, attribute in _SECRET_REFERENCES:
        source = getattr(spec, source_name)
        reference = getattr(source, attribute) if source is not None else None
        if reference is not None:
            yield ReferencedObject("secrets", reference.namespace or home, reference.name)
    for attribute in _CSI_NODE_SECRETS:
        reference = getattr(spec.csi, attribute) if spec.csi is not None else None
        if reference is not None:
            yield ReferencedObject("secrets", reference.namespace, reference.name)

# SPDX-License-Identifier: Apache-2.0
"""Mirror pods: the only pods that a kubelet may create; they must not refer to API objects."""

from __future__ import annotations

from typing import Any

from kubeloop.api import errors
from kubeloop.api.meta.field_path import quote
from kubeloop.api.pods.references import MIRROR_ANNOTATION
from kubeloop.apiserver.admission import Attributes, Lookup
from kubeloop.apiserver.admission.plugins.pods.pod_secrets import has_secret_reference

# Volume sources that name an API object, and its resource.
_REFERRING = (
    ("config_map", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistent_volume_claim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azure_file", "secrets (via azureFile volumes)"),
)
_REFERRING_PROJECTIONS = (
    ("config_map", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("service_account_token", "serviceaccounts (via projected volumes)"),
    ("cluster_trust_bundle", "clustertrustbundles"),
    ("pod_certificate", "podcertificates"),
)


def validate_mirror_pod(attempt: Attributes, node: str, lookup: Lookup) -> None:
    """Reject a pod that a node may not create."""
    pod: Any = attempt.obj
    who = f"node {quote(node)}"
    if MIRROR_ANNOTATION not in pod.metadata.annotations:
        told = f"pod does not have {quote(MIRROR_ANNOTATION)} annotation, {who} can only create mirror pods"
        raise attempt.forbidden(told)
    if pod.spec.node_name != node:
        raise attempt.forbidden(f"{who} can only create pods with spec.nodeName set to itself")
    problem = _problem_of_owner(pod, node, who, lookup)
    if problem:
        raise attempt.forbidden(problem)
    referred = _first_referenced_resource(pod)
    if referred:
        raise attempt.forbidden(f"{who} can not create pods that reference {referred}")


def _problem_of_owner(pod: Any, node: str, who: str, lookup: Lookup) -> str:
    owners = pod.metadata.owner_references
    if len(owners) > 1:
        return f"{who} can only create pods with a single owner reference set to itself"
    if not owners or (owners[0].api_version, owners[0].kind, owners[0].name) != ("v1", "Node", node):
        return f"{who} can only create pods with an owner reference set to itself"
    owner = owners[0]
    if not owner.controller:
        return f"{who} can only create pods with a controller owner reference set to itself"
    if owner.block_owner_deletion:
        return f"{who} must not set blockOwnerDeletion on an owner reference"
    found = lookup.get_object("nodes", "", node)
    if found is None:
        raise errors.not_found("", "nodes", node)
    if owner.uid != found.metadata.uid:
        return f"node {node} UID mismatch: expected {owner.uid} got {found.metadata.uid}"
    return ""


def _first_referenced_resource(pod: Any) -> str:
    """Return the first kind of API object that a pod refers to; empty if none."""
    spec = pod.spec
    if spec.service_account_name:
        return "serviceaccounts"
    if has_secret_reference(spec):
        return "secrets"
    if _names_a_config_map(spec):
        return "configmaps"
    if spec.resource_claims:
        return "resourceclaims"
    for volume in spec.volumes:
        for attribute, what in _REFERRING:
            if getattr(volume, attribute) is not None:
                return what
        for source in (volume.projected.sources or ()) if volume.projected is not None else ():
            for attribute, what in _REFERRING_PROJECTIONS:
                if getattr(source, attribute) is not None:
                    return what
    return ""


def _names_a_config_map(spec: Any) -> bool:
    for containers in (spec.init_containers, spec.containers or (), spec.ephemeral_containers):
        for container in containers:
            if any(source.config_map_ref is not None for source in container.env_from):
                return True
            values = (variable.value_from for variable in container.env if variable.value_from is not None)
            if any(value.config_map_key_ref is not None for value in values):
                return True
    return any(
        volume.config_map is not None
        or (volume.projected is not None and any(one.config_map is not None for one in volume.projected.sources or ()))
        for volume in spec.volumes
    )

# SPDX-License-Identifier: Apache-2.0
"""Pod info: facts about a pod, derived once for all pods with the same scheduling signature."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from functools import cached_property
from typing import Any

from msgspec import structs

from kubeloop.api.codec import encode
from kubeloop.api.generated.core_v1 import Affinity, Container, NodeAffinity, Pod, Volume
from kubeloop.api.meta.owner_references import controller_of
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from kubeloop.scheduler.cache import resources
from kubeloop.scheduler.cache.affinity_terms import AffinityTerm, affinity_terms_of
from kubeloop.scheduler.cache.resources import ResourceAmounts
from kubeloop.scheduler.plugins.shared.declared_features import required_node_features

_MAX_SIGNATURES = 4096  # signatures kept in the cache

# Host port: address, protocol, number.
HostPort = tuple[str, str, int]
ANY_ADDRESS = "0.0.0.0"


class PodSignature:
    """Signature: pods that do not differ in anything relevant for scheduling. Facts are derived lazily."""

    def __init__(self, pod: Pod, number: int) -> None:
        self.pod = pod  # one of the pods
        self.number = number
        self.plugin_states: dict[Any, Any] = {}  # state of plugins, by plugin

    @property
    def namespace(self) -> str:
        """Namespace of the pods."""
        return self.pod.metadata.namespace

    @property
    def labels(self) -> Any:
        """Labels of the pods."""
        return self.pod.metadata.labels

    @cached_property
    def requests(self) -> ResourceAmounts:
        """Resource requests as integers."""
        return resources.pod_requests(self.pod)

    @cached_property
    def nonzero_requests(self) -> ResourceAmounts:
        """Non-zero resource requests, with defaults for containers without requests."""
        return resources.nonzero_pod_requests(self.pod)

    @cached_property
    def nonzero_cpu_memory(self) -> tuple[tuple[str, int], ...]:
        """Non-zero requests of cpu and memory, as pairs."""
        return tuple(
            (name, self.nonzero_requests[name])
            for name in (resources.CPU, resources.MEMORY)
            if name in self.nonzero_requests
        )

    @cached_property
    def host_ports(self) -> tuple[HostPort, ...]:
        """Host ports of containers and sidecars; other init containers do not count."""
        spec = self.pod.spec
        running = (*(spec.containers or ()), *(one for one in spec.init_containers if one.restart_policy == "Always"))
        return tuple(
            (port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in running
            for port in container.ports
            if port.host_port > 0
        )

    @cached_property
    def images(self) -> tuple[str, ...]:
        """Images of all containers and image volumes."""
        spec = self.pod.spec
        containers = (*spec.init_containers, *(spec.containers or ()))
        return (*(one.image for one in containers), *(one.image.reference for one in spec.volumes if one.image))

    @cached_property
    def label_key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """Namespace and labels in hashable form."""
        return self.namespace, tuple(sorted(self.labels.items()))

    @cached_property
    def pod_affinity_terms(self) -> tuple[AffinityTerm, ...]:
        """Inter-pod affinity terms."""
        return affinity_terms_of(self.pod)

    @cached_property
    def claims(self) -> tuple[tuple[str, str], ...]:
        """PersistentVolumeClaims used by name, as (namespace, name)."""
        volumes = self.pod.spec.volumes
        names = (one.persistent_volume_claim.claim_name for one in volumes if one.persistent_volume_claim)
        return tuple((self.namespace, name) for name in names)

    @cached_property
    def affinity(self) -> Affinity:
        """Affinity; empty if there is none."""
        return self.pod.spec.affinity or Affinity()

    @property
    def node_affinity(self) -> NodeAffinity:
        """Node affinity; empty if there is none."""
        return self.affinity.node_affinity or NodeAffinity()


class PodInfo:
    """Pod with its signature and resource requests."""

    __slots__ = ("key", "pod", "requests", "signature", "uid")

    def __init__(self, pod: Pod, template: PodSignature) -> None:
        self.pod = pod
        self.key: ObjectKey = key_of(pod)
        self.uid = pod.metadata.uid
        self.signature = template
        self.requests = resources.pod_requests(pod) if _is_resized(pod) else template.requests

    @property
    def priority(self) -> int:
        """Priority; 0 by default."""
        return self.pod.spec.priority or 0

    def replace_pod(self, pod: Pod) -> None:
        """Replace the pod by a newer version with the same signature and requests."""
        self.pod = pod

    @property
    def node_name(self) -> str:
        """Name of the assigned node, or empty."""
        return self.pod.spec.node_name


class SignatureCache:
    """Cache of signatures by content."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, PodSignature] = OrderedDict()
        self._relabelled: OrderedDict[tuple[int, Hashable], PodSignature] = OrderedDict()
        self._made = 0

    def pod_info(self, pod: Pod) -> PodInfo:
        """Return the pod info of a pod."""
        return PodInfo(pod, self.signature_of(pod))

    def pod_info_relabelled(self, known: PodInfo, pod: Pod) -> PodInfo:
        """Return the pod info of a pod of which only the labels have changed; faster than a full comparison."""
        key = known.signature.number, tuple(pod.metadata.labels.items())
        found = self._relabelled.get(key)
        if found is None:
            found = self._relabelled[key] = self.signature_of(pod)
            if len(self._relabelled) > _MAX_SIGNATURES:
                self._relabelled.popitem(last=False)
        return PodInfo(pod, found)

    def signature_of(self, pod: Pod) -> PodSignature:
        """Return the signature of a pod."""
        key = _signature_key(pod)
        found = self._known.get(key)
        if found is None:
            self._made += 1
            found = self._known[key] = PodSignature(pod, self._made)
            if len(self._known) > _MAX_SIGNATURES:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(key)
        return found


def with_node_name(pod: Pod, node: str) -> Pod:
    """Return a copy of the pod assigned to a node."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def is_irrelevant_update(old: Pod, new: Pod) -> bool:
    """Return True if an update of an assigned pod is irrelevant to other pods."""
    return old.metadata.labels == new.metadata.labels and has_same_resources(old, new)


def has_same_resources(old: Pod, new: Pod) -> bool:
    """Return True if an update changes at most the labels of what is relevant to other pods."""
    return (
        (old.metadata.deletion_timestamp is None) == (new.metadata.deletion_timestamp is None)
        and old.spec.containers == new.spec.containers
        and old.spec.init_containers == new.spec.init_containers
        and old.spec.resources == new.spec.resources
        and not _is_resized(new)
        and not _is_resized(old)
    )


def _signature_key(pod: Pod) -> bytes:
    meta, spec = pod.metadata, pod.spec
    owner = controller_of(meta.owner_references)
    return encode(
        (
            meta.namespace,
            meta.labels,
            None if owner is None else (owner.api_version, owner.kind, owner.name),
            spec.scheduler_name,
            spec.priority,
            spec.preemption_policy,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.resource_claims,
            [_container_key(one) for one in spec.containers or ()],
            [_container_key(one) for one in spec.init_containers],
            [one for one in spec.volumes if _may_restrict_nodes(one)],
            pod.status.resource_claim_statuses if spec.resource_claims else None,
            sorted(required_node_features(spec)),
            meta.name if any(one.ephemeral is not None for one in spec.volumes) else None,
        )
    )


def _container_key(container: Container) -> Any:
    return container.image, container.resources, container.ports, container.restart_policy


def _may_restrict_nodes(volume: Volume) -> bool:
    """Return True if a volume may restrict the pod to some nodes; volumes that every node provides do not."""
    return (
        volume.projected is None
        and volume.empty_dir is None
        and volume.config_map is None
        and volume.secret is None
        and volume.downward_api is None
        and volume.host_path is None
    )


def _is_resized(pod: Pod) -> bool:
    """Return True if containers have resources other than their spec requests."""
    statuses = pod.status.container_statuses
    if not statuses:
        return False
    asked = {one.name: one.resources.requests for one in pod.spec.containers or ()}
    return any(
        (one.allocated_resources and one.allocated_resources != asked.get(one.name))
        or (one.resources is not None and one.resources.requests and one.resources.requests != asked.get(one.name))
        for one in statuses
    )

# SPDX-License-Identifier: Apache-2.0
"""Uses of features that are disabled by default in 1.37, in pods, templates and pod status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.core_v1 import (
    Container,
    EphemeralContainer,
    HTTPGetAction,
    Lifecycle,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    Volume,
)
from kubeloop.api.strategy.gates import Use, drop_disabled

# Annotations from before init containers had a field.
_INIT_CONTAINER_ANNOTATIONS = tuple(
    f"pod.{stage}.kubernetes.io/init-container{tail}" for stage in ("beta", "alpha") for tail in ("s", "-statuses")
)


def drop_disabled_pod_fields(new: Any, old: Any, features: Features) -> None:
    """Drop disabled fields of a pod or pod template; `old` may be None."""
    if old is None or new.spec is not old.spec:
        _drop_disabled_spec_fields(new.spec, None if old is None else old.spec, features)
    annotations = new.metadata.annotations
    if annotations and not annotations.keys().isdisjoint(_INIT_CONTAINER_ANNOTATIONS):
        kept = {key: value for key, value in annotations.items() if key not in _INIT_CONTAINER_ANNOTATIONS}
        force_setattr(new.metadata, "annotations", kept)


def _drop_disabled_spec_fields(new: PodSpec, old: PodSpec | None, features: Features) -> None:
    signalled = [container for container in containers_of(new) if _has_stop_signal(container)]
    drop_disabled(_spec_uses, new, old, features)
    for container in signalled:
        # A lifecycle that held only a dropped signal is dropped, too.
        if container.lifecycle == Lifecycle():
            force_setattr(container, "lifecycle", None)


def drop_disabled_template_fields(new: PodTemplateSpec | None, old: PodTemplateSpec | None, features: Features) -> None:
    """Drop disabled fields of a pod template, if there is one."""
    if new is not None:
        drop_disabled_pod_fields(new, old, features)


def drop_disabled_status_fields(new: Pod, old: Pod, features: Features) -> None:
    """Drop disabled fields of a pod's status."""
    drop_disabled(_status_uses, new.status, old.status, features)


def containers_of(spec: PodSpec) -> tuple[Container | EphemeralContainer, ...]:
    """Return all containers in starting order; ephemeral ones last."""
    return (*spec.init_containers, *(spec.containers or ()), *spec.ephemeral_containers)


def _has_stop_signal(container: Container | EphemeralContainer) -> bool:
    return container.lifecycle is not None and container.lifecycle.stop_signal is not None


def _spec_uses(spec: PodSpec) -> Iterator[Use]:
    if spec.scheduling_group is not None:
        yield "GenericWorkload", spec, "scheduling_group"
    if spec.eviction_responders:
        yield "EvictionRequestAPI", spec, "eviction_responders"
    for container in containers_of(spec):
        for mount in container.volume_mounts:
            if mount.bind_mount_options:
                yield "VolumeBindMountOptions", mount, "bind_mount_options"
        yield from _handler_uses(container)
    for volume in spec.volumes:
        yield from _volume_uses(volume)


def _handler_uses(container: Container | EphemeralContainer) -> Iterator[Use]:
    for probe in (container.liveness_probe, container.readiness_probe, container.startup_probe):
        if probe is not None:
            yield from _http_uses(probe.http_get)
            if probe.grpc is not None and probe.grpc.mode is not None:
                yield "GRPCContainerProbeTLS", probe.grpc, "mode"
    lifecycle = container.lifecycle
    if lifecycle is not None:
        if lifecycle.stop_signal is not None:
            yield "ContainerStopSignals", lifecycle, "stop_signal"
        for handler in (lifecycle.post_start, lifecycle.pre_stop):
            if handler is not None:
                yield from _http_uses(handler.http_get)


def _http_uses(action: HTTPGetAction | None) -> Iterator[Use]:
    if action is not None and action.protocol is not None:
        yield "H2CContainerProbe", action, "protocol"


def _volume_uses(volume: Volume) -> Iterator[Use]:
    if volume.empty_dir is not None and volume.empty_dir.mode is not None:
        yield "EmptyDirVolumeMode", volume.empty_dir, "mode"
    for source in (volume.secret, volume.config_map, volume.downward_api, volume.projected):
        if source is not None:
            yield from _user_uses(source, "default_user")
            for item in getattr(source, "items", ()):
                yield from _user_uses(item, "user")
    if volume.projected is not None:
        for projection in volume.projected.sources or ():
            for part in (projection.secret, projection.config_map, projection.downward_api):
                if part is not None:
                    for item in part.items:
                        yield from _user_uses(item, "user")
            for owner in (
                projection.service_account_token,
                projection.cluster_trust_bundle,
                projection.pod_certificate,
            ):
                if owner is not None:
                    yield from _user_uses(owner, "user")


def _user_uses(owner: Any, field: str) -> Iterator[Use]:
    if getattr(owner, field) is not None:
        yield "AtomicWriteVolumeUserFields", owner, field


def _status_uses(status: PodStatus) -> Iterator[Use]:
    if status.node_allocatable_resource_claim_statuses:
        yield "DRANodeAllocatableResources", status, "node_allocatable_resource_claim_statuses"
    if status.volume_health:
        yield "CSIVolumeHealth", status, "volume_health"
    for container in (
        *status.init_container_statuses,
        *status.container_statuses,
        *status.ephemeral_container_statuses,
    ):
        for mount in container.volume_mounts:
            if mount.volume_status is not None:
                yield "ImageVolumeWithDigest", mount, "volume_status"

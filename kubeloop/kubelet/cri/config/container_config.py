# SPDX-License-Identifier: Apache-2.0
"""Settings of a container: command, environment, mounts, security context, limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.containers.environment import expand
from kubeloop.kubelet.cri.config.labels import container_annotations, container_labels
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory, container_resources, with_run_options
from kubeloop.kubelet.cri.config.security_context import (
    ImageUser,
    SecurityInputs,
    container_security_context,
    with_target,
)
from kubeloop.kubelet.cri.messages.container import (
    ContainerConfig,
    ContainerMetadata,
    Device,
    KeyValue,
    LinuxContainerConfig,
    Mount,
    Signal,
)
from kubeloop.kubelet.cri.messages.image import ImageSpec
from kubeloop.kubelet.cri.messages.security import UserNamespace


class ContainerInputs(NamedTuple):
    """Inputs of a container's settings besides the pod."""

    attempt: int
    image_ref: str  # reference of the image in the runtime's store
    image_user: ImageUser
    environment: Mapping[str, str]
    mounts: tuple[Mount, ...]
    memory: MachineMemory
    seccomp_folder: str
    seccomp_default: bool = False
    masked_paths: tuple[str, ...] = ()  # of this machine
    devices: tuple[Device, ...] = ()
    target_id: str = ""  # container whose process namespace an ephemeral container shares
    user_namespace: UserNamespace | None = None
    options: RunOptions = RunOptions()


def make_container_config(pod: Pod, container: Container, inputs: ContainerInputs) -> ContainerConfig:
    """Return the settings of a container. Raises `ContainerConfigError`."""
    options = inputs.options
    values = {**options.environment, **inputs.environment}
    context = container_security_context(
        pod,
        container,
        SecurityInputs(
            inputs.image_user,
            inputs.seccomp_folder,
            inputs.seccomp_default,
            inputs.user_namespace,
            inputs.masked_paths,
        ),
    )
    if inputs.target_id:
        context = with_target(context, inputs.target_id)
    resources = with_run_options(container_resources(pod, container, inputs.memory), options)
    return ContainerConfig(
        metadata=ContainerMetadata(name=container.name, attempt=inputs.attempt),
        image=ImageSpec(image=inputs.image_ref, user_specified_image=container.image),
        command=tuple(expand(word, values) for word in container.command),
        args=tuple(expand(word, values) for word in container.args),
        working_dir=container.working_dir,
        envs=tuple(KeyValue(key=name, value=value.encode()) for name, value in values.items()),
        mounts=tuple(_with_id_mappings(one, inputs.user_namespace) for one in (*options.mounts, *inputs.mounts)),
        devices=(*options.devices, *inputs.devices),
        cdi_devices=options.cdi_devices,
        labels=container_labels(pod, container),
        annotations={**options.annotations, **container_annotations(pod, container, inputs.attempt)},
        log_path=f"{container.name}/{inputs.attempt}.log",
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=LinuxContainerConfig(resources=resources, security_context=context),
        stop_signal=_stop_signal(container),
    )


def _with_id_mappings(mount: Mount, user_namespace: UserNamespace | None) -> Mount:
    """Return a mount whose files keep their owners within the pod's user namespace."""
    if user_namespace is None or not user_namespace.uids:
        return mount
    return msgspec.structs.replace(mount, uid_mappings=user_namespace.uids, gid_mappings=user_namespace.gids)


def _stop_signal(container: Container) -> Signal:
    wanted = container.lifecycle.stop_signal if container.lifecycle is not None else None
    return Signal[wanted.replace("+", "PLUS").replace("-", "MINUS")] if wanted else Signal.RUNTIME_DEFAULT

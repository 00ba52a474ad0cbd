# SPDX-License-Identifier: Apache-2.0
"""References of a pod to secrets, and those that its service account does not list."""

from __future__ import annotations

from collections.abc import Container as Collection
from collections.abc import Iterable
from typing import Any

from kubeloop.api.generated.core_v1 import PodSpec, ServiceAccount, Volume

# Volume sources that name a secret by a reference, and the attribute that holds it.
_REFERRING_SOURCES = (
    ("cephfs", "secret_ref"),
    ("cinder", "secret_ref"),
    ("flex_volume", "secret_ref"),
    ("rbd", "secret_ref"),
    ("scale_io", "secret_ref"),
    ("iscsi", "secret_ref"),
    ("storageos", "secret_ref"),
    ("csi", "node_publish_secret_ref"),
)


def has_secret_reference(spec: PodSpec) -> bool:
    """Return True if any part of a pod refers to a secret."""
    return (
        bool(spec.image_pull_secrets)
        or any(
            _container_names_a_secret(container)
            for containers in (spec.init_containers, spec.containers or (), spec.ephemeral_containers)
            for container in containers
        )
        or any(_volume_names_a_secret(volume) for volume in spec.volumes)
    )


def _container_names_a_secret(container: Any) -> bool:
    return any(source.secret_ref is not None for source in container.env_from) or any(
        variable.value_from is not None and variable.value_from.secret_key_ref is not None for variable in container.env
    )


def _volume_names_a_secret(volume: Volume) -> bool:
    if volume.secret is not None:
        return True
    if volume.azure_file is not None and volume.azure_file.secret_name:
        return True
    if volume.projected is not None and any(source.secret is not None for source in volume.projected.sources or ()):
        return True
    for source_name, reference in _REFERRING_SOURCES:
        source = getattr(volume, source_name)
        if source is not None and getattr(source, reference) is not None:
            return True
    return False


def unlisted_secret_error(spec: PodSpec, account: ServiceAccount) -> str:
    """Return the error for the first secret that the account does not list; empty if all are listed."""
    listed = {secret.name for secret in account.secrets}
    owner = account.metadata.name
    for volume in spec.volumes:
        if volume.secret is not None and volume.secret.secret_name not in listed:
            return (
                f'volume with secret.secretName="{volume.secret.secret_name}" is not allowed '
                f"because service account {owner} does not reference that secret"
            )
    found = _in_containers(spec.init_containers, "init container", listed, owner)
    found = found or _in_containers(spec.containers or (), "container", listed, owner)
    return found or _unlisted_pull_secret(spec, account)


def unlisted_ephemeral_secret_error(spec: PodSpec, account: ServiceAccount) -> str:
    """Return the same error for ephemeral containers only."""
    listed = {secret.name for secret in account.secrets}
    return _in_containers(spec.ephemeral_containers, "ephemeral container", listed, account.metadata.name)


def _in_containers(containers: Iterable[Any], what: str, listed: Collection[str], owner: str) -> str:
    for container in containers:
        for variable in container.env:
            source = variable.value_from
            if source is None or source.secret_key_ref is None or source.secret_key_ref.name in listed:
                continue
            return (
                f"{what} {container.name} with envVar {variable.name} referencing "
                f'secret.secretName="{source.secret_key_ref.name}" is not allowed '
                f"because service account {owner} does not reference that secret"
            )
        for source in container.env_from:
            if source.secret_ref is not None and source.secret_ref.name not in listed:
                return (
                    f'{what} {container.name} with envFrom referencing secret.secretName="{source.secret_ref.name}" '
                    f"is not allowed because service account {owner} does not reference that secret"
                )
    return ""


def _unlisted_pull_secret(spec: PodSpec, account: ServiceAccount) -> str:
    listed = {secret.name for secret in account.image_pull_secrets}
    for index, secret in enumerate(spec.image_pull_secrets):
        if secret.name not in listed:
            return (
                f'imagePullSecrets[{index}].name="{secret.name}" is not allowed '
                f"because service account {account.metadata.name} does not reference that imagePullSecret"
            )
    return ""

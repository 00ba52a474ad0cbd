# SPDX-License-Identifier: Apache-2.0
"""ServiceAccount: assigns every pod an existing service account, and mounts its token unless opted out."""

from __future__ import annotations

from functools import lru_cache

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import (
    ConfigMapProjection,
    Container,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    KeyToPath,
    ObjectFieldSelector,
    Pod,
    PodSpec,
    ProjectedVolumeSource,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup
from kubeloop.apiserver.admission.plugins.pods.pod_secrets import (
    has_secret_reference,
    unlisted_ephemeral_secret_error,
    unlisted_secret_error,
)
from kubeloop.clock import deterministic_suffix

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
_ENFORCE_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
_DEFAULT_ACCOUNT = "default"
_VOLUME_PREFIX = "kube-api-access-"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})

# An hour plus seven seconds, by which the issuer recognizes tokens mounted by this plugin.
_TOKEN_SECONDS = 60 * 60 + 7
_FILE_MODE = 0o644
_TOKEN_SOURCE = ProjectedVolumeSource(
    default_mode=_FILE_MODE,
    sources=(
        VolumeProjection(
            service_account_token=ServiceAccountTokenProjection(path="token", expiration_seconds=_TOKEN_SECONDS)
        ),
        VolumeProjection(
            config_map=ConfigMapProjection(name="kube-root-ca.crt", items=(KeyToPath(key="ca.crt", path="ca.crt"),))
        ),
        VolumeProjection(
            downward_api=DownwardAPIProjection(
                items=(
                    DownwardAPIVolumeFile(
                        path="namespace",
                        field_ref=ObjectFieldSelector(api_version="v1", field_path="metadata.namespace"),
                    ),
                )
            )
        ),
    ),
)


class ServiceAccountPlugin(AdmissionPlugin):
    """Defaults and validates service accounts of pods."""

    name = "ServiceAccount"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "ephemeralcontainers"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, lookup: Lookup) -> None:
        self._find = lookup.get_object

    def admit(self, attempt: Attributes) -> None:
        """Set account, token mount and image pull secrets on create; mirror pods are only checked."""
        pod = attempt.obj
        if attempt.operation != "CREATE" or not isinstance(pod, Pod):
            return
        if MIRROR_ANNOTATION in pod.metadata.annotations:
            # The kubelet would treat a changed spec as another pod.
            _check_mirror(attempt, pod)
            return
        spec = pod.spec
        if not spec.service_account_name:
            force_setattr(spec, "service_account_name", _DEFAULT_ACCOUNT)
            force_setattr(spec, "service_account", _DEFAULT_ACCOUNT)
        account = self._account_of(attempt, spec)
        if _wants_token(spec, account):
            _mount_token(spec, account)
        if account.image_pull_secrets and not spec.image_pull_secrets:
            force_setattr(spec, "image_pull_secrets", account.image_pull_secrets)
        _check_secrets(attempt, pod, account)

    def validate(self, attempt: Attributes) -> None:
        """Reject a missing account, secrets that the account does not list, or API references of a mirror pod."""
        pod = attempt.obj
        if not isinstance(pod, Pod):
            return
        if attempt.operation == "UPDATE":
            if attempt.subresource == "ephemeralcontainers":
                self._check_ephemeral(attempt, pod)
        elif attempt.subresource == "":
            if MIRROR_ANNOTATION in pod.metadata.annotations:
                _check_mirror(attempt, pod)
            else:
                _check_secrets(attempt, pod, self._account_of(attempt, pod.spec))

    def _account_of(self, attempt: Attributes, spec: PodSpec) -> ServiceAccount:
        namespace, name = attempt.namespace, spec.service_account_name
        if not name:
            pod_name = attempt.obj.metadata.name if attempt.obj is not None else ""
            raise attempt.forbidden(f"no service account specified for pod {namespace}/{pod_name}")
        account: ServiceAccount | None = self._find("serviceaccounts", namespace, name)
        if account is None:
            raise attempt.forbidden(
                f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            )
        return account

    def _check_ephemeral(self, attempt: Attributes, pod: Pod) -> None:
        account = self._account_of(attempt, pod.spec)
        if _enforces_secrets(account):
            found = unlisted_ephemeral_secret_error(pod.spec, account)
            if found:
                raise attempt.forbidden(found)


def _mount_token(spec: PodSpec, account: ServiceAccount) -> None:
    needy = [
        container
        for container in (*spec.init_containers, *(spec.containers or ()))
        if not container.volume_mounts or not _mounts_at_token_path(container)
    ]
    if not needy:
        return
    existing = _token_volume(spec) if spec.volumes else ""
    volume, mount = _token_parts(existing or _VOLUME_PREFIX + deterministic_suffix(account.metadata.uid))
    for container in needy:
        force_setattr(container, "volume_mounts", (*container.volume_mounts, mount))
    if not existing:
        force_setattr(spec, "volumes", (*spec.volumes, volume))


@lru_cache(maxsize=1024)
def _token_parts(name: str) -> tuple[Volume, VolumeMount]:
    """Return the token volume and mount; shared by all pods of an account, which makes them quick to compare."""
    volume = Volume(name=name, projected=_TOKEN_SOURCE)
    return volume, VolumeMount(name=name, read_only=True, mount_path=_MOUNT_PATH)


def _token_volume(spec: PodSpec) -> str:
    return next((volume.name for volume in spec.volumes if volume.name.startswith(_VOLUME_PREFIX)), "")


def _mounts_at_token_path(container: Container) -> bool:
    return any(mount.mount_path == _MOUNT_PATH for mount in container.volume_mounts)


def _wants_token(spec: PodSpec, account: ServiceAccount) -> bool:
    """Return True if the token is to be mounted: the pod's setting, else the account's, else the default True."""
    wish = spec.automount_service_account_token
    if wish is None:
        wish = account.automount_service_account_token
    return wish is not False


def _enforces_secrets(account: ServiceAccount) -> bool:
    return account.metadata.annotations.get(_ENFORCE_ANNOTATION, "") in _TRUE


def _check_secrets(attempt: Attributes, pod: Pod, account: ServiceAccount) -> None:
    if _enforces_secrets(account):
        found = unlisted_secret_error(pod.spec, account)
        if found:
            raise attempt.forbidden(found)


def _check_mirror(attempt: Attributes, pod: Pod) -> None:
    """Reject a mirror pod that refers to API objects: it shows a static pod that already runs."""
    spec = pod.spec
    if spec.service_account_name:
        raise attempt.forbidden("a mirror pod may not reference service accounts")
    if has_secret_reference(spec):
        raise attempt.forbidden("a mirror pod may not reference secrets")
    for volume in spec.volumes:
        if volume.projected is not None and any(
            source.service_account_token is not None for source in volume.projected.sources or ()
        ):
            raise attempt.forbidden("a mirror pod may not use ServiceAccountToken volume projections")

# SPDX-License-Identifier: Apache-2.0
"""Files of volumes whose contents the kubelet writes: configMap, secret, downwardAPI, projected."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle
from kubeloop.api.generated.core_v1 import (
    ClusterTrustBundleProjection,
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIVolumeFile,
    Pod,
    PodCertificateProjection,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from kubeloop.api.selectors.objects import label_selector_as_selector
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.containers.environment import resolve_field_ref, resolve_resource_field_ref
from kubeloop.kubelet.sync.containers import all_containers_of, find_container
from kubeloop.kubelet.volumes.host.atomic_writer import FileContent
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.pod_certificates import CredentialBundle, PodCertificateManager

DEFAULT_MODE = 0o644
OWNER_MODE = 0o600  # of tokens and trust bundles with an owner, or with a group, which then may read them
# A token is requested again after this share of its lifetime, or after a day.
_REFRESH_SHARE, _LONGEST_USE_SECONDS = 0.8, 86_400.0

_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)

Files = dict[str, FileContent]
_KeySource = ConfigMapVolumeSource | ConfigMapProjection | SecretVolumeSource | SecretProjection

log = logging.getLogger(__name__)


class _Defaults(NamedTuple):
    """Mode and owner of the files of a volume that set none."""

    mode: int
    uid: int | None


class _IssuedToken(NamedTuple):
    token: bytes
    refresh_at: datetime
    expires_at: datetime


class PayloadReader:
    """Reads the contents of volumes from the API server. Tokens are kept until most of their lifetime has passed."""

    def __init__(self, client: Client, clock: Clock, certificates: PodCertificateManager) -> None:
        self._client = client
        self._clock = clock
        self._certificates = certificates
        self._tokens: dict[tuple[str, str], _IssuedToken] = {}  # by pod UID and audience with lifetime

    def remove_pod(self, uid: str) -> None:
        """Forget the tokens and certificates of a pod."""
        self._certificates.remove_pod(uid)
        self._tokens = {key: one for key, one in self._tokens.items() if key[0] != uid}

    async def read(self, pod: Pod, volume: Volume, allocatable: Mapping[str, str]) -> Files | None:
        """Return the files of a volume by path; None for a volume of another kind. Raises `PayloadError`."""
        if (config_map := volume.config_map) is not None:
            defaults = _defaults(config_map.default_mode, config_map.default_user)
            held = await self._config_map(pod, config_map.name, bool(config_map.optional))
            return _select(held, config_map, defaults, "configmap references non-existent config key: ")
        if (secret := volume.secret) is not None:
            defaults = _defaults(secret.default_mode, secret.default_user)
            held = await self._secret(pod, secret.secret_name, bool(secret.optional))
            return _select(held, secret, defaults, "references non-existent secret key: ")
        if (downward := volume.downward_api) is not None:
            defaults = _defaults(downward.default_mode, downward.default_user)
            return _downward_files(pod, downward.items, defaults, allocatable)
        if (projected := volume.projected) is not None:
            defaults = _defaults(projected.default_mode, projected.default_user)

            async def project(index: int, source: VolumeProjection) -> Files:
                if (wanted := source.pod_certificate) is not None:
                    bundle = await self._certificates.get(pod, volume.name, index, wanted)
                    return _certificate_files(pod, wanted, bundle, defaults)
                return await self._project(pod, source, defaults, allocatable)

            return await _merge(project(index, source) for index, source in enumerate(projected.sources or ()))
        return None

    async def _project(
        self, pod: Pod, source: VolumeProjection, defaults: _Defaults, allocatable: Mapping[str, str]
    ) -> Files:
        if (config_map := source.config_map) is not None:
            held = await self._config_map(pod, config_map.name, bool(config_map.optional))
            return _select(held, config_map, defaults, "configmap references non-existent config key: ")
        if (secret := source.secret) is not None:
            held = await self._secret(pod, secret.name, bool(secret.optional))
            return _select(held, secret, defaults, "references non-existent secret key: ")
        if source.downward_api is not None:
            return _downward_files(pod, source.downward_api.items, defaults, allocatable)
        if source.service_account_token is not None:
            return await self._token(pod, source.service_account_token, defaults)
        if source.cluster_trust_bundle is not None:
            return await self._trust_bundle(pod, source.cluster_trust_bundle, defaults)
        raise PayloadError("a projected volume has a source that this kubelet does not support")

    async def _config_map(self, pod: Pod, name: str, is_optional: bool) -> Mapping[str, bytes] | None:
        try:
            found = await self._client.get(ConfigMap, name, pod.metadata.namespace)
        except NotFound:
            if is_optional:
                return None
            raise PayloadError(f'configmap "{name}" not found') from None
        return {**{key: text.encode() for key, text in found.data.items()}, **found.binary_data}

    async def _secret(self, pod: Pod, name: str, is_optional: bool) -> Mapping[str, bytes] | None:
        try:
            return (await self._client.get(Secret, name, pod.metadata.namespace)).data
        except NotFound:
            if is_optional:
                return None
            raise PayloadError(f'secret "{name}" not found') from None

    async def _token(self, pod: Pod, wanted: ServiceAccountTokenProjection, defaults: _Defaults) -> Files:
        return {wanted.path: _private_file(pod, await self._current_token(pod, wanted), wanted.user, defaults)}

    async def _current_token(self, pod: Pod, wanted: ServiceAccountTokenProjection) -> bytes:
        key, now = (pod.metadata.uid, f"{wanted.audience}/{wanted.expiration_seconds}"), self._clock.now()
        held = self._tokens.get(key)
        if held is None or held.refresh_at <= now:
            try:
                held = self._tokens[key] = await self._request_token(pod, wanted, now)
            except ApiError as error:
                if held is None or held.expires_at <= now:
                    raise
                log.warning("a token of pod %s could not be refreshed: %s", pod.metadata.name, error)
        return held.token

    async def _request_token(self, pod: Pod, wanted: ServiceAccountTokenProjection, now: datetime) -> _IssuedToken:
        about = pod.metadata
        reference = BoundObjectReference(kind="Pod", api_version="v1", name=about.name, uid=about.uid)
        spec = TokenRequestSpec(
            audiences=(wanted.audience,) if wanted.audience else None,
            expiration_seconds=wanted.expiration_seconds,
            bound_object_ref=reference,
        )
        account = pod.spec.service_account_name or "default"
        request = TokenRequest(spec=spec)
        made = await self._client.create_subresource(ServiceAccount, account, "token", request, about.namespace)
        seconds = made.spec.expiration_seconds or wanted.expiration_seconds or 0
        refresh_after = min(seconds * _REFRESH_SHARE, _LONGEST_USE_SECONDS)
        token = made.status.token.encode()
        return _IssuedToken(token, now + timedelta(seconds=refresh_after), now + timedelta(seconds=seconds))

    async def _trust_bundle(self, pod: Pod, wanted: ClusterTrustBundleProjection, defaults: _Defaults) -> Files:
        if wanted.name is not None:
            try:
                bundles = [await self._client.get(ClusterTrustBundle, wanted.name)]
            except NotFound:
                bundles = []
        else:
            selector = label_selector_as_selector(wanted.label_selector)
            listed = await self._client.list(ClusterTrustBundle, fields=f"spec.signerName={wanted.signer_name}")
            bundles = [one for one in listed.items if selector.matches(one.metadata.labels or {})]
        if not bundles and not wanted.optional:
            if wanted.name is not None:
                raise PayloadError(f'while getting ClusterTrustBundle: clustertrustbundle "{wanted.name}" not found')
            raise PayloadError("combination of signerName and labelSelector matched zero ClusterTrustBundles")
        content = join_certificates(one.spec.trust_bundle for one in bundles)
        return {wanted.path: _private_file(pod, content.encode(), wanted.user, defaults)}


async def _merge(parts: Iterable[Coroutine[Any, Any, Files]]) -> Files:
    """Return the files of all sources, which are read at the same time; raises the failure of the first that fails."""
    files: Files = {}
    for part in await asyncio.gather(*parts, return_exceptions=True):
        if isinstance(part, BaseException):
            raise part
        files |= part
    return files


def _certificate_files(
    pod: Pod, wanted: PodCertificateProjection, bundle: CredentialBundle, defaults: _Defaults
) -> Files:
    """Return the files of a pod certificate: the key and the certificates, in one file or in two."""
    contents = {
        wanted.credential_bundle_path: bundle.key + bundle.chain,
        wanted.key_path: bundle.key,
        wanted.certificate_chain_path: bundle.chain,
    }
    return {path: _private_file(pod, data, wanted.user, defaults) for path, data in contents.items() if path}


def join_certificates(bundles: Iterable[str]) -> str:
    """Return the certificates of all bundles, each once."""
    found = dict.fromkeys(one for bundle in bundles for one in _CERTIFICATE.findall(bundle))
    return "".join(f"{one}\n" for one in found)


def common_user_of(pod: Pod) -> int | None:
    """Return the user that all containers of a pod run as, if they set the same one."""
    of_pod = pod.spec.security_context.run_as_user if pod.spec.security_context is not None else None
    users = set()
    for one in all_containers_of(pod):
        own = one.security_context.run_as_user if one.security_context is not None else None
        users.add(of_pod if own is None else own)
    return users.pop() if len(users) == 1 else None


def _private_file(pod: Pod, data: bytes, user: int | None, defaults: _Defaults) -> FileContent:
    """Return a file of the user that it names, that its volume names, or that the pod runs as."""
    uid = next((one for one in (user, defaults.uid, common_user_of(pod)) if one is not None), None)
    is_owned = uid is not None or _fs_group(pod) is not None
    return FileContent(data, OWNER_MODE if is_owned else defaults.mode, uid)


def _defaults(mode: int | None, uid: int | None) -> _Defaults:
    return _Defaults(DEFAULT_MODE if mode is None else mode, uid)


def _fs_group(pod: Pod) -> int | None:
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


def _select(held: Mapping[str, bytes] | None, source: _KeySource, defaults: _Defaults, complaint: str) -> Files:
    """Return all entries as files, or those that the items name."""
    if held is None:
        return {}
    if not source.items:
        return {key: FileContent(data, defaults.mode, defaults.uid) for key, data in held.items()}
    files: Files = {}
    for item in source.items:
        if item.key not in held:
            if source.optional:
                continue
            raise PayloadError(f"{complaint}{item.key}")
        mode = defaults.mode if item.mode is None else item.mode
        uid = defaults.uid if item.user is None else item.user
        files[item.path] = FileContent(held[item.key], mode, uid)
    return files


def _downward_files(
    pod: Pod, items: tuple[DownwardAPIVolumeFile, ...], defaults: _Defaults, allocatable: Mapping[str, str]
) -> Files:
    files: Files = {}
    for item in items:
        text = ""
        if item.field_ref is not None:
            text = resolve_field_ref(pod, item.field_ref.field_path)
        elif (wanted := item.resource_field_ref) is not None:
            container = find_container(pod, wanted.container_name)
            if container is None:
                raise PayloadError(f"container {wanted.container_name} not found")
            text = resolve_resource_field_ref(pod, container, wanted, allocatable)
        mode = defaults.mode if item.mode is None else item.mode
        uid = defaults.uid if item.user is None else item.user
        files[item.path] = FileContent(text.encode(), mode, uid)
    return files

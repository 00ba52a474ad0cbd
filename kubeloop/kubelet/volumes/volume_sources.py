# SPDX-License-Identifier: Apache-2.0
"""Existence of the ConfigMaps, Secrets and ClusterTrustBundles that a pod's volumes contain.

Positive results are cached for some seconds, so that thousands of pods with the same source need one request;
negative results are not cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kubeloop.api.errors import NotFound
from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle
from kubeloop.api.generated.core_v1 import ClusterTrustBundleProjection, ConfigMap, KeyToPath, Pod, Secret, Volume
from kubeloop.api.selectors.objects import label_selector_as_selector
from kubeloop.client import Client
from kubeloop.clock import Clock

SOURCE_CACHE_SECONDS = 10.0
_MAX_CACHED_SOURCES = 4096
# Volume added by admission; simulated containers never read it, so its sources need not exist.
_SERVICE_ACCOUNT_VOLUME_PREFIX = "kube-api-access-"


class VolumeSourceReference(NamedTuple):
    """ConfigMap or Secret with the keys that must exist."""

    is_secret: bool
    name: str
    is_optional: bool
    keys: tuple[str, ...]


class _CachedKeys(NamedTuple):
    """Cached keys of a ConfigMap or Secret, and the time of the request."""

    keys: frozenset[str]
    at: float


class VolumeSourceChecker:
    """Checks sources at the API server."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._held: dict[tuple[str, bool, str], _CachedKeys] = {}

    async def source_error(self, pod: Pod, volume: Volume) -> str:
        """Return the error of a volume's sources with the kubelet's message; empty if all exist."""
        found: list[str] = []
        for reference in volume_source_references(volume):
            if (why := await self._complaint(pod.metadata.namespace, reference)) and why not in found:
                found.append(why)
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""

    async def _complaint(self, namespace: str, reference: VolumeSourceReference | ClusterTrustBundleProjection) -> str:
        if isinstance(reference, ClusterTrustBundleProjection):
            return "" if reference.optional else await self._trust_bundle_error(reference)
        keys = await self._keys(namespace, reference)
        if keys is None:
            kind = "secret" if reference.is_secret else "configmap"
            return "" if reference.is_optional else f'{kind} "{reference.name}" not found'
        missing = next((key for key in reference.keys if key not in keys), None)
        if missing is None or reference.is_optional:
            return ""
        if reference.is_secret:
            return f"references non-existent secret key: {missing}"
        return f"configmap references non-existent config key: {missing}"

    async def _trust_bundle_error(self, projection: ClusterTrustBundleProjection) -> str:
        if projection.name is not None:
            try:
                await self._client.get(ClusterTrustBundle, projection.name)
            except NotFound:
                missing = f'clustertrustbundle.certificates.k8s.io "{projection.name}" not found'
                return f"while getting ClusterTrustBundle: {missing}"
            return ""
        selector = label_selector_as_selector(projection.label_selector)
        bundles = await self._client.list(ClusterTrustBundle, fields=f"spec.signerName={projection.signer_name}")
        if any(selector.matches(bundle.metadata.labels or {}) for bundle in bundles.items):
            return ""
        return "combination of signerName and labelSelector matched zero ClusterTrustBundles"

    async def _keys(self, namespace: str, reference: VolumeSourceReference) -> frozenset[str] | None:
        where, now = (namespace, reference.is_secret, reference.name), self._clock.monotonic()
        held = self._held.get(where)
        if held is None or now - held.at >= SOURCE_CACHE_SECONDS or not held.keys.issuperset(reference.keys):
            keys = await self._fetch_keys(namespace, reference)
            if keys is None:
                self._held.pop(where, None)
                return None
            if len(self._held) >= _MAX_CACHED_SOURCES:
                self._held.clear()
            held = self._held[where] = _CachedKeys(keys, now)
        return held.keys

    async def _fetch_keys(self, namespace: str, reference: VolumeSourceReference) -> frozenset[str] | None:
        try:
            if reference.is_secret:
                return frozenset((await self._client.get(Secret, reference.name, namespace)).data)
            found = await self._client.get(ConfigMap, reference.name, namespace)
        except NotFound:
            return None
        return frozenset({*found.data, *found.binary_data})


def volume_source_references(volume: Volume) -> Iterator[VolumeSourceReference | ClusterTrustBundleProjection]:
    """Yield the ConfigMaps, Secrets and ClusterTrustBundles of a volume."""
    if (secret := volume.secret) is not None:
        yield VolumeSourceReference(True, secret.secret_name, bool(secret.optional), _keys(secret.items))
    elif (config_map := volume.config_map) is not None:
        yield VolumeSourceReference(False, config_map.name, bool(config_map.optional), _keys(config_map.items))
    elif volume.projected is not None:
        for source in volume.projected.sources or ():
            for one, is_secret in ((source.secret, True), (source.config_map, False)):
                if one is not None:
                    yield VolumeSourceReference(is_secret, one.name, bool(one.optional), _keys(one.items))
            if source.cluster_trust_bundle is not None:
                yield source.cluster_trust_bundle


def _keys(items: tuple[KeyToPath, ...] | None) -> tuple[str, ...]:
    return tuple(one.key for one in items or ())


def has_checked_sources(volume: Volume) -> bool:
    """Return True if a volume has sources that must exist."""
    if volume.projected is not None:
        return not volume.name.startswith(_SERVICE_ACCOUNT_VOLUME_PREFIX)
    return volume.secret is not None or volume.config_map is not None

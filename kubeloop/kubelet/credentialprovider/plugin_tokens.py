# SPDX-License-Identifier: Apache-2.0
"""Tokens of service accounts for credential provider plugins, bound to the pods whose images are pulled."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestSpec
from kubeloop.api.generated.core_v1 import Pod, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.kubelet.credentialprovider.exec_plugin import PluginError
from kubeloop.kubelet.credentialprovider.provider_config import ServiceAccountTokenAttributes

# A token is requested again after this share of its lifetime, or after a day.
_REFRESH_SHARE, _LONGEST_USE_SECONDS = 0.8, 24 * 3600.0
_DEFAULT_SECONDS = 3600

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServiceAccountIdentity:
    """Service account of a pod, with the annotations that a plugin is to get."""

    namespace: str
    name: str
    uid: str
    annotations: tuple[tuple[str, str], ...] = ()


class _PluginToken(NamedTuple):
    token: str
    refresh_at: datetime
    expires_at: datetime


class PluginTokens:
    """Requests tokens, and keeps them until most of their lifetime has passed."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._held: dict[tuple[str, str, str], _PluginToken] = {}  # by pod UID, UID of the account and audience

    async def read_account(self, pod: Pod, wanted: ServiceAccountTokenAttributes) -> ServiceAccountIdentity | None:
        """Return the service account of a pod; None if it has not all required annotations. Raises `PluginError`."""
        namespace, name = pod.metadata.namespace, pod.spec.service_account_name
        try:
            found = await self._client.get(ServiceAccount, name, namespace)
        except ApiError as error:
            raise PluginError(f"failed to get service account: {error}") from None
        held = found.metadata.annotations
        for key in wanted.required_service_account_annotation_keys:
            if key not in held:
                log.debug("service account %s/%s: required annotation %s not found", namespace, name, key)
                return None
        keys = (*wanted.required_service_account_annotation_keys, *wanted.optional_service_account_annotation_keys)
        annotations = tuple((key, held[key]) for key in sorted(keys) if key in held)
        return ServiceAccountIdentity(namespace, name, found.metadata.uid, annotations)

    async def get(self, pod: Pod, account: ServiceAccountIdentity, audience: str) -> str:
        """Return a token for a pod. Raises `PluginError`."""
        now = self._clock.now()
        self._held = {key: one for key, one in self._held.items() if one.expires_at > now}
        key = (pod.metadata.uid, account.uid, audience)
        held = self._held.get(key)
        if held is None or now >= held.refresh_at:
            try:
                held = self._held[key] = await self._request(pod, account, audience, now)
            except ApiError as error:
                if held is None:
                    raise PluginError(f"failed to get service account token: failed to fetch token: {error}") from None
                log.error("Couldn't update token of service account %s: %s", account.name, error)
        return held.token

    async def _request(self, pod: Pod, account: ServiceAccountIdentity, audience: str, now: datetime) -> _PluginToken:
        about = pod.metadata
        reference = BoundObjectReference(kind="Pod", api_version="v1", name=about.name, uid=about.uid)
        request = TokenRequest(
            metadata=ObjectMeta(uid=account.uid),
            spec=TokenRequestSpec(audiences=(audience,), bound_object_ref=reference),
        )
        namespace = account.namespace
        made = await self._client.create_subresource(ServiceAccount, account.name, "token", request, namespace)
        seconds = made.spec.expiration_seconds or _DEFAULT_SECONDS
        refresh_after = min(seconds * _REFRESH_SHARE, _LONGEST_USE_SECONDS)
        return _PluginToken(made.status.token, now + timedelta(seconds=refresh_after), now + timedelta(seconds=seconds))

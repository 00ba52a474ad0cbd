"""ImagePolicyWebhook: asks a webhook whether the images of a pod may be used."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.webhook_client.kubeconfig import WebhookKubeconfigError, read_webhook_kubeconfig
from kubeloop.clock import Clock

_AUDIT_PREFIX: Final = "imagepolicywebhook.image-policy.k8s.io/"
_FAILED_OPEN: Final = "alpha.image-policy.k8s.io/failed-open"
_TIMEOUT_SECONDS: Final = 30
_CACHE_SIZE: Final = 1024
_ATTEMPTS, _FACTOR, _JITTER = 5, 1.5, 0.2
_RETRIED = (errors.InternalError, errors.Timeout, errors.TooManyRequests)
# Name, scale to seconds, default, least and greatest value in seconds.
_DURATIONS: Final = {
    "retry_backoff": (1e-3, 0.5, 1e-9, 300.0, "1ns", "5m0s"),
    "allow_ttl": (1.0, 300.0, 1.0, 1800.0, "1s", "30m0s"),
    "deny_ttl": (1.0, 30.0, 1.0, 1800.0, "1s", "30m0s"),
}


class ImagePolicyConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Webhook and cache settings; a duration of 0 means the default, -1 none."""

    kube_config_file: str = ""
    allow_ttl: int = msgspec.field(default=0, name="allowTTL")
    deny_ttl: int = msgspec.field(default=0, name="denyTTL")
    retry_backoff: int = 0
    default_allow: bool = False

    def seconds(self, name: str) -> float:
        """Return a duration in seconds; raises `AdmissionConfigError` if it is out of range."""
        scale, default, least, most, shown_least, shown_most = _DURATIONS[name]
        value: int = getattr(self, name)
        if value == -1:
            return 0.0
        if value == 0:
            return default
        seconds = value * scale
        if not least <= seconds <= most:
            raise AdmissionConfigError(
                f"valid value is between {shown_least} and {shown_most}, got {_go_duration(seconds)}"
            )
        return seconds


class ImagePolicyWebhookConfiguration(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration file of the plugin."""

    image_policy: ImagePolicyConfiguration = ImagePolicyConfiguration()


class ImagePolicyWebhook(AdmissionPlugin):
    """Rejects pods with images that the webhook does not allow."""

    name = "ImagePolicyWebhook"
    resources = frozenset({"pods"})
    subresources = frozenset({"", "ephemeralcontainers"})
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, file: ImagePolicyWebhookConfiguration, clock: Clock) -> None:
        config = file.image_policy
        self._backoff = config.seconds("retry_backoff")
        self._allow_ttl, self._deny_ttl = config.seconds("allow_ttl"), config.seconds("deny_ttl")
        self._default_allow = config.default_allow
        self._clock = clock
        try:
            self._target = read_webhook_kubeconfig(Path(config.kube_config_file)).target()
        except WebhookKubeconfigError as error:
            raise AdmissionConfigError(str(error)) from None
        self._cache: OrderedDict[bytes, tuple[float, Mapping[str, Any]]] = OrderedDict()

    def validate(self, attempt: Attributes) -> Awaitable[None] | None:
        """Reject the pod if the webhook, or its cached response, does not allow the images."""
        pod = attempt.obj
        assert isinstance(pod, Pod)
        spec = msgspec.json.encode(_review_spec(attempt, pod))
        expires, status = self._cache.get(spec, (0.0, {}))
        if expires > self._clock.monotonic():
            _apply(attempt, status)
            return None
        return self._review(attempt, pod, spec)

    async def _review(self, attempt: Attributes, pod: Pod, spec: bytes) -> None:
        try:
            status = await self._call(spec)
        except (RemoteUnreachable, errors.ApiError, ValueError) as error:
            if not self._default_allow:
                raise attempt.forbidden(str(error)) from None
            attempt.annotations.setdefault(f"{_AUDIT_PREFIX}failed-open", "true")
            marked = {**pod.metadata.annotations, _FAILED_OPEN: "true"}
            force_setattr(pod, "metadata", msgspec.structs.replace(pod.metadata, annotations=marked))
            return
        ttl = self._allow_ttl if status.get("allowed") else self._deny_ttl
        self._cache[spec] = (self._clock.monotonic() + ttl, status)
        self._cache.move_to_end(spec)
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        _apply(attempt, status)

    async def _call(self, spec: bytes) -> Mapping[str, Any]:
        """Post the review, with retries; returns the status of the response."""
        body = msgspec.json.encode(
            {
                "kind": "ImageReview",
                "apiVersion": "imagepolicy.k8s.io/v1alpha1",
                "metadata": {},
                "spec": msgspec.Raw(spec),
                "status": {"allowed": False},
            }
        )
        delay = self._backoff
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            try:
                return await self._post(body)
            except _RETRIED:
                if not attempts_left:
                    raise
            except RemoteUnreachable as error:
                if not attempts_left or "connection reset" not in str(error):
                    raise
            await asyncio.sleep(delay * (1 + self._clock.random().random() * _JITTER))
            delay *= _FACTOR
        raise AssertionError("unreachable")

    async def _post(self, body: bytes) -> Mapping[str, Any]:
        target = self._target
        headers = (
            ("Content-Type", "application/json"),
            ("Accept", "application/json, */*"),
            ("User-Agent", "kube-apiserver"),
            *target.credentials.headers(),
        )
        query = f"?timeout={_TIMEOUT_SECONDS}s"
        try:
            response = await target.http_client.request("POST", target.path + query, headers, body, _TIMEOUT_SECONDS)
        except RemoteUnreachable as error:
            raise RemoteUnreachable(f'Post "{target.url}{query}": {error}') from None
        if not 200 <= response.status <= 206:
            raise errors.generic_server_response(response.status, response.body.decode("utf-8", "replace").strip())
        review = msgspec.json.decode(response.body)
        status = review.get("status") if isinstance(review, dict) else None
        return status if isinstance(status, dict) else {}


def _review_spec(attempt: Attributes, pod: Pod) -> dict[str, Any]:
    containers: Any = (*(pod.spec.containers or ()), *pod.spec.init_containers)
    if attempt.subresource:
        containers = pod.spec.ephemeral_containers
    spec: dict[str, Any] = {"containers": [{"image": one.image} for one in containers]}
    annotations = {key: text for key, text in pod.metadata.annotations.items() if ".image-policy.k8s.io/" in key}
    if annotations:
        spec["annotations"] = annotations
    return {**spec, "namespace": attempt.namespace}


def _apply(attempt: Attributes, status: Mapping[str, Any]) -> None:
    for key, value in (status.get("auditAnnotations") or {}).items():
        attempt.annotations.setdefault(f"{_AUDIT_PREFIX}{key}", str(value))
    if status.get("allowed"):
        return
    reason = status.get("reason")
    if reason:
        raise attempt.forbidden(f"image policy webhook backend denied one or more images: {reason}")
    raise attempt.forbidden("one or more images rejected by webhook backend")


def _go_duration(seconds: float) -> str:
    """Format a duration as Go does."""
    minutes, rest = divmod(abs(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    text = f"{rest:.9g}s"
    if minutes or hours:
        text = f"{int(minutes)}m{text}"
    return ("-" if seconds < 0 else "") + (f"{int(hours)}h{text}" if hours else text)

# SPDX-License-Identifier: Apache-2.0
"""ImagePolicyWebhook: asks a webhook whether the images of a pod may be used."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Mapping
from typing import Any, Final

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated.core_v1 import Pod
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes
from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError
from kubeloop.apiserver.webhook_client.review_client import KubeconfigEndpoint, ReviewClient, WebhookFailure
from kubeloop.clock import Clock

_AUDIT_PREFIX: Final = "imagepolicywebhook.image-policy.k8s.io/"
_FAILED_OPEN: Final = "alpha.image-policy.k8s.io/failed-open"
_CACHE_SIZE: Final = 1024
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

    def __init__(self, config: ImagePolicyConfiguration, endpoint: KubeconfigEndpoint, clock: Clock) -> None:
        self._allow_ttl, self._deny_ttl = config.seconds("allow_ttl"), config.seconds("deny_ttl")
        self._default_allow = config.default_allow
        self._clock = clock
        self._client = ReviewClient(endpoint, clock, retry_seconds=config.seconds("retry_backoff"))
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
        except WebhookFailure as error:
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
        """Post the review; returns the status of the response."""
        review = {
            "kind": "ImageReview",
            "apiVersion": "imagepolicy.k8s.io/v1alpha1",
            "metadata": {},
            "spec": msgspec.Raw(spec),
            "status": {"allowed": False},
        }
        status = (await self._client.post(review)).get("status")
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

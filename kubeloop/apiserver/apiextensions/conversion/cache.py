# SPDX-License-Identifier: Apache-2.0
"""Cache of custom objects converted by a webhook: filled before a read, which is then synchronous.

Reads are synchronous everywhere in this server, and webhook calls are not. So a reader first prepares the objects that
it needs; serializers then find them here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.generated.apiextensions_v1 import WebhookConversion
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.apiextensions.conversion.review import (
    ConversionError,
    choose_conversion_version,
    encode_conversion_request,
    encode_stored_form,
    parse_conversion_response,
    verify_converted_object,
    version_in,
)
from kubeloop.apiserver.webhook_client.client_config import WebhookClients, WebhookTarget
from kubeloop.clock import Clock, new_uid
from kubeloop.metrics import MetricRegistry

_SECONDS: Final = 30
_TARGET: Final = f"?timeout={_SECONDS}s"
_MAX_CACHED_BYTES: Final = 256 << 20
# Maximum bytes of objects per call: the response has to fit, whatever is added to them.
_MAX_SENT_BYTES: Final = 4 << 20
_HEADERS: Final = (
    ("Content-Type", "application/json"),
    ("Accept", "application/json, */*"),
    ("User-Agent", "kube-apiserver-admission"),
)


# Failure types of conversions, as label values.
_CALL: Final = "conversion_webhook_call_failure"
_MALFORMED: Final = "conversion_webhook_malformed_response_failure"
_PARTIAL: Final = "conversion_webhook_partial_response_failure"
_NOTHING: Final = "conversion_webhook_no_objects_returned_failure"
_INVALID: Final = "conversion_webhook_invalid_converted_object_failure"
_BUCKETS: Final = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60)


class ConversionMetrics:
    """Metrics of the conversion webhooks of all CRDs."""

    def __init__(self, registry: MetricRegistry) -> None:
        labels = ("result", "failure_type")
        self._requests = registry.counter("apiserver_conversion_webhook_request_total", *labels)
        self._durations = registry.histogram("apiserver_conversion_webhook_duration_seconds", *labels, bounds=_BUCKETS)

    def observe(self, failure_type: str, seconds: float) -> None:
        """Count a call and observe its duration; an empty failure type means success."""
        outcome = ("failure" if failure_type else "success", failure_type)
        self._requests.with_labels(*outcome).value += 1
        self._durations.with_labels(*outcome).observe(seconds)


class Conversions:
    """Conversion webhook of one CRD, with a cache of converted objects.

    `_known` holds converted bytes by version and original bytes, the oldest first.
    """

    def __init__(
        self, spec: WebhookConversion, callees: WebhookClients, clock: Clock, metrics: ConversionMetrics
    ) -> None:
        self._metrics = metrics
        self._spec = spec
        self._clients = callees
        self._clock = clock
        self._cache: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._size = 0

    def get_cached(self, value: bytes, version: str) -> bytes | None:
        """Return an object in a version, if it is cached or needs no conversion; else None."""
        return value if version_in(value) == version else self._cache.get((version, value))

    async def prepare(self, values: Iterable[bytes], version: str, kind: str = "") -> None:
        """Convert objects, so that all are cached on return. Raises an ApiError."""
        wanted = list(values)
        self._evict()
        while missing := [value for value in wanted if self.get_cached(value, version) is None]:
            for batch in _batches(list(dict.fromkeys(missing))):
                await self._convert(batch, version, kind)

    async def _convert(self, batch: Sequence[bytes], version: str, kind: str) -> None:
        originals = [msgspec.json.decode(value) for value in batch]
        source = kind or originals[0]["kind"]
        about = f"{version if kind else originals[0]['apiVersion']}, Kind={source}"
        started, outcome = self._clock.monotonic(), _CALL
        try:
            review, uid = choose_conversion_version(self._spec.conversion_review_versions or ()), new_uid(self._clock)
            answer = await self._call(encode_conversion_request(batch, version, uid, review))
            outcome = _MALFORMED
            converted = parse_conversion_response(answer, uid, review)
            outcome = _PARTIAL if converted else _NOTHING
            if len(converted) != len(batch):
                raise ConversionError(f"returned {len(converted)} objects, expected {len(batch)}")
            outcome = _INVALID
            for index, (value, original) in enumerate(zip(batch, originals, strict=True)):
                self._put(version, value, self._verify(original, converted[index], version, index))
        except ConversionError as error:
            raise errors.ApiError(f"conversion webhook for {about} {error}") from None
        else:
            outcome = ""
        finally:
            self._metrics.observe(outcome, self._clock.monotonic() - started)

    def _verify(self, original: dict[str, object], converted: object, version: str, index: int) -> bytes:
        try:
            return encode_stored_form(verify_converted_object(original, converted, version))
        except ConversionError as error:
            raise ConversionError(f"returned invalid converted object at index {index}: {error}") from None
        except msgspec.MsgspecError as error:
            raise ConversionError(f"returned invalid metadata in object at index {index}: {error}") from None

    async def _call(self, body: bytes) -> bytes:
        callee = self._client()
        try:
            answer = await callee.http_client.request("POST", callee.path + _TARGET, _HEADERS, body, _SECONDS)
        except RemoteUnreachable as error:
            raise ConversionError(f'failed: Post "{callee.url}{_TARGET}": {error}') from None
        if not 200 <= answer.status <= 206:
            told = errors.generic_server_response(answer.status, answer.body.decode("utf-8", "replace").strip())
            raise ConversionError(f"failed: {told.message}")
        return answer.body

    def _client(self) -> WebhookTarget:
        if self._spec.client_config is None:
            raise ConversionError("failed: webhook configuration must have either service or URL")
        return self._clients.client_for(self._spec.client_config)

    def _put(self, version: str, value: bytes, converted: bytes) -> None:
        if (version, value) not in self._cache:
            self._cache[version, value] = converted
            self._size += len(value) + len(converted)

    def _evict(self) -> None:
        while self._size > _MAX_CACHED_BYTES:
            (_, value), converted = self._cache.popitem(last=False)
            self._size -= len(value) + len(converted)


class VersionConversion:
    """Conversions for the storage of one version."""

    def __init__(self, conversions: Conversions, version: str, stored_version: str, list_kind: str) -> None:
        self._conversions = conversions
        self.version = version
        self._stored = stored_version
        self._list_kind = list_kind

    def get_cached(self, value: bytes) -> bytes | None:
        """Return the converted object if it is cached, else None."""
        return self._conversions.get_cached(value, self.version)

    async def prepare(self, values: Iterable[bytes], *, as_list: bool = False) -> None:
        """Convert stored objects before they are read in this version. Raises an ApiError."""
        await self._conversions.prepare(values, self.version, self._list_kind if as_list else "")

    async def to_stored(self, value: bytes) -> bytes:
        """Convert an object of this version to the stored one, and cache the way back."""
        stored = await self.convert(value, self._stored)
        await self._conversions.prepare((stored,), self.version)
        return stored

    async def convert(self, value: bytes, version: str) -> bytes:
        """Return an object converted to another version. Raises an ApiError."""
        await self._conversions.prepare((value,), version)
        found = self._conversions.get_cached(value, version)
        assert found is not None, "the client was created above"
        return found


def _batches(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for value in values:
        if batch and size + len(value) > _MAX_SENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value)
    if batch:
        yield batch

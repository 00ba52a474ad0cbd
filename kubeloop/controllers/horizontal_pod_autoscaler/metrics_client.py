# SPDX-License-Identifier: Apache-2.0
"""Reads resource, custom and external metrics from their APIs. Values are in thousandths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from kubeloop.api import errors
from kubeloop.api.generated.autoscaling_v2 import CrossVersionObjectReference
from kubeloop.api.kinds import Resource
from kubeloop.api.scalars.duration import parse_duration
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.api.scalars.times import parse_time
from kubeloop.api.selectors import LabelSelector
from kubeloop.client import Client
from kubeloop.client.errors import NoKindMatchError, TransportError

POD_METRICS: Final = Resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", verbs=("get", "list"))
CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
_CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")  # preferred version first
_EXTERNAL_VERSION: Final = "v1beta1"
_USUAL_WINDOW: Final = timedelta(minutes=1)  # assumed if a metric has none


class MetricsError(Exception):
    """Raised if metrics are not available; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class PodMetric:
    """Value of a metric for one pod."""

    value: int
    timestamp: datetime
    window: timedelta


class MetricsClient:
    """Reads the metrics APIs through the API server. All failures raise `MetricsError`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get_resource_metric(
        self, name: str, namespace: str, selector: LabelSelector, container: str = ""
    ) -> dict[str, PodMetric]:
        """Return a resource's usage by pod name, of all containers or of one."""
        try:
            found = await self._client.list(POD_METRICS, namespace, labels=str(selector))
        except (errors.ApiError, TransportError, TimeoutError) as error:
            why = _told(error, POD_METRICS.group_resource)
            raise MetricsError(f"unable to fetch metrics from resource metrics API: {why}") from error
        if not found.items:
            raise MetricsError("no metrics returned from resource metrics API")
        used = ((one, _use_of(one, name, container)) for one in found.items)
        return {
            one.metadata.name: PodMetric(value, parse_time(one["timestamp"]), _window(one.get("window")))
            for one, value in used
            if value is not None
        }

    async def get_raw_metric(
        self, metric: str, namespace: str, selector: LabelSelector, metric_selector: LabelSelector
    ) -> dict[str, PodMetric]:
        """Return a custom metric by pod name."""
        path = f"namespaces/{quote(namespace)}/pods/*/{quote(metric)}"
        query = {"labelSelector": str(selector), "metricLabelSelector": str(metric_selector)}
        items = await self._custom(path, query, "pods")
        if not items:
            raise MetricsError("no metrics returned from custom metrics API")
        return {
            str(one["describedObject"]["name"]): PodMetric(
                _milli(one["value"]), parse_time(one["timestamp"]), _custom_window(one)
            )
            for one in items
        }

    async def get_object_metric(
        self, metric: str, namespace: str, about: CrossVersionObjectReference, metric_selector: LabelSelector
    ) -> int:
        """Return a custom metric of one object in the namespace, or of the namespace itself."""
        group = about.api_version.rpartition("/")[0]
        if about.kind == "Namespace" and not group:
            path, plural = f"namespaces/{quote(namespace)}/metrics/{quote(metric)}", "namespaces"
        else:
            plural = await self._plural(about.kind, group)
            path = f"namespaces/{quote(namespace)}/{plural}/{quote(about.name)}/{quote(metric)}"
        items = await self._custom(path, {"metricLabelSelector": str(metric_selector)}, plural)
        if len(items) != 1:
            why = f"the custom metrics API server returned {len(items)} results when we asked for exactly one"
            raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}")
        return _milli(items[0]["value"])

    async def get_external_metric(self, metric: str, namespace: str, selector: LabelSelector) -> list[int]:
        """Return all values of an external metric."""
        path = f"/apis/{EXTERNAL}/{_EXTERNAL_VERSION}/namespaces/{quote(namespace)}/{quote(metric)}"
        try:
            answer = await self._client.document(_with_query(path, {"labelSelector": str(selector)}))
        except (errors.ApiError, TransportError, TimeoutError) as error:
            why = _told(error, f"{metric}.{EXTERNAL}")
            raise MetricsError(f"unable to fetch metrics from external metrics API: {why}") from error
        items = answer.get("items") or ()
        if not items:
            raise MetricsError("no metrics returned from external metrics API")
        return [_milli(one["value"]) for one in items]

    async def _custom(self, path: str, query: Mapping[str, str], plural: str) -> list[Mapping[str, Any]]:
        try:
            version = await self._custom_version()
            answer = await self._client.document(_with_query(f"/apis/{CUSTOM}/{version}/{path}", query))
        except (errors.ApiError, TransportError, TimeoutError) as error:
            why = _told(error, f"{plural}.{CUSTOM}")
            raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}") from error
        return list(answer.get("items") or ())

    async def _custom_version(self) -> str:
        groups = (await self._client.document("/apis")).get("groups") or ()
        for group in groups:
            if group["name"] == CUSTOM:
                served = {one["version"] for one in group["versions"]}
                return next((one for one in _CUSTOM_VERSIONS if one in served), group["preferredVersion"]["version"])
        why = f"no custom metrics API ({CUSTOM}) registered"
        raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}")

    async def _plural(self, kind: str, group: str) -> str:
        try:
            resource = await self._client.resolve(f"{kind}.{group}" if group else f"{kind}/v1")
        except (NoKindMatchError, errors.ApiError, TransportError) as error:
            named = f"{kind}.{group}" if group else kind
            why = f"unable to map kind {named} to resource: {error}"
            raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}") from error
        return resource.group_resource


def _use_of(pod: Mapping[str, Any], resource: str, container: str) -> int | None:
    """Sum the usage of the relevant containers; None if one is missing."""
    containers: Iterable[Mapping[str, Any]] = pod.get("containers") or ()
    counted = [one for one in containers if container in ("", one["name"])]
    amounts = [(one.get("usage") or {}).get(resource) for one in counted]
    if not amounts or None in amounts:
        return None
    return sum(map(_milli, amounts))


def _milli(amount: Any) -> int:
    return parse_quantity(str(amount)).milli_value()


def _window(text: Any) -> timedelta:
    return timedelta(microseconds=parse_duration(str(text)) / 1000) if text else timedelta()


def _custom_window(value: Mapping[str, Any]) -> timedelta:
    seconds = value.get("windowSeconds", value.get("window"))  # name of the field in the older version
    return _USUAL_WINDOW if seconds is None else timedelta(seconds=int(seconds))


def _with_query(path: str, query: Mapping[str, str]) -> str:
    said = {key: value for key, value in query.items() if value}
    return f"{path}?{urlencode(said)}" if said else path


def _told(error: Exception, what: str) -> str:
    """Return the message; a generic one is completed with its resource, as in upstream's clients."""
    if isinstance(error, errors.ApiError) and str(error) == str(errors.generic_server_response(error.code)):
        return f"{error} (get {what})"
    return str(error)

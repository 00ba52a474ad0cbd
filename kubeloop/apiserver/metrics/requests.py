# SPDX-License-Identifier: Apache-2.0
"""Request counters and histograms.

A plain request appends one sample to the record of its flow; samples are added to the series in batches, and when
metrics are read. For others, the series are looked up: a request within the first bucket of every histogram is counted
in plain attributes, from which the histograms are completed on collection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from kubeloop.apiserver.metrics.filters import AuthenticationMetrics
from kubeloop.apiserver.metrics.flow_record import FlowRecord
from kubeloop.apiserver.nonresource.discovery import wants_aggregated
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.routing import Target
from kubeloop.apiserver.request.trace import RequestTrace
from kubeloop.apiserver.response.observed_stream import ObservedStream
from kubeloop.clock import Clock
from kubeloop.http import Request, Response, StreamResponse, UpgradeResponse
from kubeloop.metrics import Histogram, MetricRegistry, exponential_bounds, linear_bounds

if TYPE_CHECKING:
    from kubeloop.apiserver.flowcontrol.request_flow import RequestFlow

DURATION_BOUNDS: Final = (
    *(0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60),
)
_SLI_BOUNDS: Final = DURATION_BOUNDS[2:]
_SIZE_BOUNDS: Final = exponential_bounds(1000, 10, 7)
_BODY_BOUNDS: Final = linear_bounds(50_000, 100_000, 31)
_FAST_SECONDS: Final = DURATION_BOUNDS[0]
_SMALL_BYTES: Final = _SIZE_BOUNDS[0]
_SMALL_BODY_BYTES: Final = _BODY_BOUNDS[0]

_KIND_LABELS: Final = ("component", "group", "resource", "scope", "subresource", "verb", "version")
_COMPONENT: Final = "apiserver"
_VERBS: Final = {
    "list": "LIST",
    "watch": "WATCH",
    "get": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "apply": "APPLY",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_METHODS: Final = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_OTHER_METHOD: Final = "other"
_HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
_APPLY: Final = "application/apply-patch+yaml"
_WEBSOCKET_SUBRESOURCES: Final = ("exec", "attach", "portforward")
_SELF: Final = "system:apiserver"
# Verbs whose requests in one flow belong to one series, those of apply apart.
_PLAIN_VERBS: Final = frozenset({"get", "list", "create", "update", "patch", "delete"})
_PLAIN_CODES: Final = frozenset({200, 201, 404, 409})
_MAX_RECORDS: Final = 1024
_MAX_SAMPLES: Final = 32  # of a record; so few stay in the processor's cache until they are added to the series
_CONNECT: Final = frozenset({"log", "exec", "portforward", "attach", "proxy"})

# Verb, group, version, resource, subresource, scope, dry-run value and status code of requests counted together.
SeriesKey: TypeAlias = tuple[str, str, str, str, str, str, str, int]


class RequestSeries:
    """Requests that are counted together; histograms exist from the first request beyond the first bucket."""

    __slots__ = (
        *("bodies", "code", "dropped", "dry_run", "durations", "fast"),
        *("is_sized", "kind", "seconds", "size", "sizes", "sli", "small"),
    )

    def __init__(self, kind: tuple[str, ...], dry_run: str, code: int, bodies: Histogram | None) -> None:
        self.kind = kind
        self.dry_run = dry_run
        self.code = str(code)
        self.bodies = bodies
        self.is_sized = kind[-2] in ("GET", "LIST")
        self.dropped = 0
        self.fast = 0
        self.seconds = 0.0
        self.small = 0
        self.size = 0
        self.durations: Histogram | None = None
        self.sli: Histogram | None = None
        self.sizes: Histogram | None = None

    @property
    def count(self) -> int:
        """Number of requests."""
        return self.dropped + self.fast + (sum(self.durations.counts) if self.durations is not None else 0)

    @property
    def has_duration(self) -> bool:
        """True unless all requests were dropped."""
        return bool(self.fast) or self.durations is not None

    def observe(self, seconds: float, excluded: float) -> None:
        """Count a request by its duration."""
        if seconds <= _FAST_SECONDS and not excluded:
            self.fast += 1
            self.seconds += seconds
        else:
            self.observe_slow(seconds, excluded)

    def observe_size(self, size: int) -> None:
        """Count the size of a response."""
        if size <= _SMALL_BYTES:
            self.small += 1
            self.size += size
        else:
            self.observe_large(size)

    def observe_all(self, seconds: Sequence[float]) -> None:
        """Count several requests, at least one, of which nothing is excluded, by their durations."""
        if max(seconds) <= _FAST_SECONDS:
            self.fast += len(seconds)
            self.seconds += sum(seconds)
            return
        durations, sli = self._histograms()
        durations.observe_all(seconds)
        sli.observe_all(seconds)

    def observe_sizes(self, sizes: Sequence[int]) -> None:
        """Count several requests, at least one: responses to reads by their sizes, writes by those of their bodies."""
        if self.is_sized:
            if max(sizes) <= _SMALL_BYTES:
                self.small += len(sizes)
                self.size += sum(sizes)
            else:
                self._size_histogram().observe_all(sizes)
        elif self.bodies is not None:
            if min(sizes) > 0 and max(sizes) <= _SMALL_BODY_BYTES:
                self.bodies.counts[0] += len(sizes)
                self.bodies.total += sum(sizes)
            else:
                self.bodies.observe_all(filter(None, sizes))

    def observe_slow(self, seconds: float, excluded: float) -> None:
        """Count a request by its duration; `excluded` is the part that the service level indicator leaves out."""
        durations, sli = self._histograms()
        durations.observe(seconds)
        sli.observe(seconds - excluded)

    def observe_large(self, size: int) -> None:
        """Count the size of a response beyond the first bucket."""
        self._size_histogram().observe(size)

    def _histograms(self) -> tuple[Histogram, Histogram]:
        if self.durations is None or self.sli is None:
            self.durations, self.sli = Histogram(DURATION_BOUNDS), Histogram(_SLI_BOUNDS)
        return self.durations, self.sli

    def _size_histogram(self) -> Histogram:
        if self.sizes is None:
            self.sizes = Histogram(_SIZE_BOUNDS)
        return self.sizes


class RequestMetrics:
    """Metrics of finished requests, and gauges of long-running ones."""

    def __init__(self, registry: MetricRegistry, authentication: AuthenticationMetrics, clock: Clock) -> None:
        self._monotonic = clock.monotonic
        self._series: dict[SeriesKey, RequestSeries] = {}
        self._authentication = authentication
        self._records: list[FlowRecord] = []
        registry.add_refresher(self._fold_records)
        counter, gauge, histogram = registry.counter, registry.gauge, registry.histogram
        counter("apiserver_request_total", "code", "dry_run", *_KIND_LABELS).set_collector(self._totals)
        histogram("apiserver_request_duration_seconds", "dry_run", *_KIND_LABELS, bounds=DURATION_BOUNDS).set_collector(
            self._durations
        )
        histogram("apiserver_request_sli_duration_seconds", *_KIND_LABELS, bounds=_SLI_BOUNDS).set_collector(self._slis)
        histogram("apiserver_response_sizes", *_KIND_LABELS, bounds=_SIZE_BOUNDS).set_collector(self._sizes)
        self._bodies = histogram("apiserver_request_body_size_bytes", "group", "resource", "verb", bounds=_BODY_BOUNDS)
        self._deprecated = gauge(
            "apiserver_requested_deprecated_apis", "group", "version", "resource", "subresource", "removed_release"
        )
        self._long_running = gauge("apiserver_longrunning_requests", *_KIND_LABELS)
        self._self_requests = counter("apiserver_selfrequest_total", "verb", "group", "resource", "subresource")
        self._field_validation = histogram(
            "field_validation_request_duration_seconds", "field_validation", bounds=_SLI_BOUNDS
        )
        self._field_validation.with_labels("")
        self._websockets = counter("apiserver_websocket_streaming_requests_total", "subresource", "proxy_type")
        self._translated = counter("apiserver_stream_translator_requests_total", "code")
        self._insecure_logs = counter("kube_apiserver_pod_logs_insecure_backend_total", "usage")
        self._terminated = counter("apiserver_request_terminations_total", "code", *_KIND_LABELS)

    def record(self, trace: RequestTrace, ctx: RequestContext, response: Response) -> bool:
        """Count a finished request in the record of its flow; returns False if it is not plain enough for that."""
        flow, request = trace.flow, ctx.request
        if flow is None or ctx.latency is not None or (request.query and _has_own_series(ctx)):
            return False
        if trace.verb == "patch" and request.headers.get("content-type") == _APPLY:
            return False
        record = flow.record
        if record is None or record.code != response.status or record.resource is not ctx.target.resource:
            record = self._new_record(flow, trace, ctx, response.status)
            if record is None:
                return False
        if trace.username != record.username:
            return False
        body: bytes | Sequence[bytes] = request.body
        if record.is_sized:
            if type(response) is not Response:
                return False
            body = response.body
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        samples = record.samples
        samples.append((self._monotonic() - trace.received, trace.authentication_seconds, size))
        if len(samples) >= _MAX_SAMPLES:
            record.fold(self._authentication)
        return True

    def _new_record(self, flow: RequestFlow, trace: RequestTrace, ctx: RequestContext, code: int) -> FlowRecord | None:
        """Return a new record for requests like this one; None if there are several series for its flow."""
        verb, target = trace.verb, ctx.target
        if code not in _PLAIN_CODES or verb not in _PLAIN_VERBS or target.subresource in _CONNECT:
            return None
        if ctx.user.name == _SELF:
            return None
        if len(self._records) >= _MAX_RECORDS:
            self._fold_records()
        series = self._series_of(ctx, verb, code)
        record = flow.record = FlowRecord(flow, series, target.resource, code)
        self._records.append(record)
        return record

    def _fold_records(self) -> None:
        records, self._records = self._records, []
        for one in records:
            one.fold(self._authentication)
            one.end()

    def observe(self, ctx: RequestContext, verb: str, response: Response, seconds: float) -> None:
        """Count a finished request by its duration in seconds."""
        series = self._series_of(ctx, verb, response.status)
        if seconds <= _FAST_SECONDS and ctx.latency is None:
            series.fast += 1
            series.seconds += seconds
        else:
            series.observe_slow(seconds, ctx.latency.excluded if ctx.latency is not None else 0.0)
        if series.is_sized:
            body = response.body
            size = len(body) if isinstance(body, bytes) else sum(map(len, body))
            if size <= _SMALL_BYTES:
                series.small += 1
                series.size += size
            else:
                series.observe_large(size)
        elif series.bodies is not None and (size := len(ctx.request.body)):
            if size <= _SMALL_BODY_BYTES:
                series.bodies.counts[0] += 1
                series.bodies.total += size
            else:
                series.bodies.observe(size)

    def observe_call(self, ctx: RequestContext, verb: str, code: int, seconds: float) -> None:
        """Count a finished call within the process; nothing is encoded, so it has no sizes."""
        series = self._series_of(ctx, verb, code)
        if seconds <= _FAST_SECONDS:
            series.fast += 1
            series.seconds += seconds
        else:
            series.observe_slow(seconds, ctx.latency.excluded if ctx.latency is not None else 0.0)

    def series_of_calls(self, ctx: RequestContext, verb: str, code: int) -> RequestSeries:
        """Return the series of calls like this one, for a caller that observes many of them."""
        return self._series_of(ctx, verb, code)

    def observe_stream(
        self, ctx: RequestContext, verb: str, response: StreamResponse, elapsed: Callable[[], float]
    ) -> StreamResponse:
        """Return a response that is counted as active while it is sent, and as a request at its end."""
        return ObservedStream(response, self._observation(ctx, verb, response.status, elapsed))

    def observe_upgrade(
        self, ctx: RequestContext, verb: str, response: UpgradeResponse, elapsed: Callable[[], float]
    ) -> None:
        """Count an upgraded connection as active, and as a request at its end."""
        subresource = ctx.target.subresource
        if subresource in _WEBSOCKET_SUBRESOURCES and ctx.request.headers.get("upgrade", "").lower() == "websocket":
            self._websockets.with_labels(subresource, "translated_at_apiserver").value += 1
            if subresource != "portforward":
                self._translated.with_labels("200").value += 1
        response.on_close = self._observation(ctx, verb, response.status, elapsed)()

    def _observation(
        self, ctx: RequestContext, verb: str, code: int, elapsed: Callable[[], float]
    ) -> Callable[[], Callable[[], None]]:
        """Return the function that begins the observation of a long-running request, and returns the one to end it."""

        def begin() -> Callable[[], None]:
            end = self.begin_long_running(verb, ctx.target)

            def finish() -> None:
                end()
                self._series_of(ctx, verb, code).observe(elapsed(), 0.0)

            return finish

        return begin

    def observe_nonresource(self, request: Request, response: Response, seconds: float) -> None:
        """Count a request for one of the non-resource paths that are counted."""
        component, path = _nonresource_of(request)
        if not path:
            return
        key = ("get", component, "", "", path, "", "", response.status)
        series = self._series.get(key)
        if series is None:
            kind = (component, "", "", "", path, "GET", "")
            series = self._series[key] = RequestSeries(kind, "", response.status, None)
        series.observe(seconds, 0.0)
        body = response.body
        series.observe_size(len(body) if isinstance(body, bytes) else sum(map(len, body)))

    def count_dropped(self, ctx: RequestContext, verb: str) -> None:
        """Count a request that flow control rejected; it has no duration."""
        series = self._series_of(ctx, verb, 429)
        series.dropped += 1
        self._terminated.with_labels(series.code, *series.kind).value += 1

    def count_rejected(self, code: int, method: str) -> None:
        """Count a request that was rejected before its resource was known."""
        kind = (_COMPONENT, "", "", "", "", method if method in _METHODS else _OTHER_METHOD, "")
        self._terminated.with_labels(str(code), *kind).value += 1

    def begin_long_running(self, verb: str, target: Target) -> Callable[[], None]:
        """Count a long-running request as active; returns the function that ends it."""
        gauge = self._long_running.with_labels(*_kind_of(verb, target))
        gauge.value += 1

        def end() -> None:
            gauge.value -= 1

        return end

    def _series_of(self, ctx: RequestContext, verb: str, code: int) -> RequestSeries:
        target = ctx.target
        resource = target.resource
        if verb == "patch" and ctx.request.headers.get("content-type") == _APPLY:
            verb = "apply"
        if target.subresource == "log" and code == 200:
            usage = "skip_tls_allowed" if ctx.query.flag("insecureSkipTLSVerifyBackend") else "enforce_tls"
            self._insecure_logs.with_labels(usage).value += 1
        if ctx.user.name == _SELF:
            self._count_self_request(verb, target)
        dry_run = ""
        if ctx.query:
            dry_run = _dry_run_of(ctx)
            if "fieldValidation" in ctx.query:
                self._add_field_validation(ctx.query.all_values("fieldValidation"))
        key = (
            verb,
            resource.group,
            resource.version,
            resource.plural,
            target.subresource,
            "resource" if target.name or verb == "create" else "namespace" if target.namespace else "cluster",
            dry_run,
            code,
        )
        return self._series.get(key) or self._add_series(key, target)

    def _count_self_request(self, verb: str, target: Target) -> None:
        _, group, resource, _, subresource, shown, _ = _kind_of(verb, target)
        self._self_requests.with_labels(shown, group, resource, subresource).value += 1

    def _add_field_validation(self, values: Sequence[str]) -> None:
        """Add the series of a fieldValidation value; upstream never observes a duration in it."""
        valid = len(values) == 1 and values[0] in ("", "Ignore", "Warn", "Strict")
        self._field_validation.with_labels(values[0] if valid else "invalid")

    def _add_series(self, key: SeriesKey, target: Target) -> RequestSeries:
        verb, resource = key[0], target.resource
        bodies = None
        if verb in ("create", "update", "patch", "apply", "delete", "deletecollection"):
            named = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
            bodies = self._bodies.with_labels(resource.group, named, "patch" if verb == "apply" else verb)
        if resource.deprecation:
            self._deprecated.with_labels(
                resource.group, resource.version, resource.plural, target.subresource, resource.removed_release
            ).value = 1
        series = self._series[key] = RequestSeries(_kind_of(verb, target), key[6], key[7], bodies)
        return series

    def _totals(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for one in self._series.values():
            labels = (one.code, one.dry_run, *one.kind)
            found[labels] = found.get(labels, 0) + one.count
        return found

    def _durations(self) -> dict[tuple[str, ...], Histogram]:
        return self._merged(
            lambda one: (one.dry_run, *one.kind) if one.has_duration else (), DURATION_BOUNDS, _durations_of
        )

    def _slis(self) -> dict[tuple[str, ...], Histogram]:
        return self._merged(lambda one: one.kind if one.has_duration and not one.dry_run else (), _SLI_BOUNDS, _slis_of)

    def _sizes(self) -> dict[tuple[str, ...], Histogram]:
        return self._merged(lambda one: one.kind if one.small or one.sizes else (), _SIZE_BOUNDS, _sizes_of)

    def _merged(
        self,
        labels_of: Callable[[RequestSeries], tuple[str, ...]],
        bounds: tuple[float, ...],
        parts_of: Callable[[RequestSeries], tuple[int, float, Histogram | None]],
    ) -> dict[tuple[str, ...], Histogram]:
        """Return histograms by labels: counts of the first bucket and slow requests of all series, added up."""
        found: dict[tuple[str, ...], Histogram] = {}
        for one in self._series.values():
            labels = labels_of(one)
            if not labels:
                continue
            merged = found.setdefault(labels, Histogram(bounds))
            first, total, rest = parts_of(one)
            merged.counts[0] += first
            merged.total += total
            if rest is not None:
                merged.add(rest.counts, rest.total)
        return found


def _durations_of(one: RequestSeries) -> tuple[int, float, Histogram | None]:
    return one.fast, one.seconds, one.durations


def _slis_of(one: RequestSeries) -> tuple[int, float, Histogram | None]:
    return one.fast, one.seconds, one.sli


def _sizes_of(one: RequestSeries) -> tuple[int, float, Histogram | None]:
    return one.small, one.size, one.sizes


def _kind_of(verb: str, target: Target) -> tuple[str, ...]:
    """Return the label values of a request, in the order of the kind labels."""
    resource, subresource = target.resource, target.subresource
    shown = "CONNECT" if subresource in _CONNECT else _VERBS.get(verb, verb.upper())
    scope = "resource" if target.name or verb == "create" else "namespace" if target.namespace else "cluster"
    return _COMPONENT, resource.group, resource.plural, scope, subresource, shown, resource.version


def _has_own_series(ctx: RequestContext) -> bool:
    """Return True if the query of a request selects or adds a series."""
    return ctx.dry_run or "fieldValidation" in ctx.query


def _dry_run_of(ctx: RequestContext) -> str:
    if not ctx.dry_run:
        return ""
    return "All" if all(one == "All" for one in ctx.query.all_values("dryRun")) else "invalid"


def _nonresource_of(request: Request) -> tuple[str, str]:
    """Return component and subresource label of a path; the latter is empty if the path is not counted."""
    path = request.path
    if path in _HEALTH_PATHS:
        return "", path
    if path.startswith("/openapi/v3"):
        return "", "openapi/v3" if path == "/openapi/v3" else "openapi/v3/"
    if path in ("/api", "/apis") and wants_aggregated(request.headers.get("accept", "")):
        return _COMPONENT, path
    return "", ""

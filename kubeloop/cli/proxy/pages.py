# SPDX-License-Identifier: Apache-2.0
"""Pages of the metrics port: /metrics, /proxyMode, /configz, /healthz, /statusz and /flagz."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubeloop.api.errors import ApiError
from kubeloop.api.features.gates import feature_states, parse_feature_gates
from kubeloop.apiserver.nonresource.zpages import flagz_response, statusz_response
from kubeloop.clock import Clock
from kubeloop.http import Request, Response
from kubeloop.metrics import MetricRegistry
from kubeloop.metrics.process import register_feature_metrics, register_process_metrics
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.runtime.component_config import plain_of

COMPONENT: Final = "kube-proxy"
_TEXT: Final = "text/plain; charset=utf-8"
_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
_NO_SNIFF: Final = (("X-Content-Type-Options", "nosniff"),)
_PATHS: Final = ("/configz", "/flagz", "/healthz", "/metrics", "/proxyMode", "/statusz")


class ProxyPages:
    """Pages of one proxy."""

    def __init__(
        self, config: KubeProxyConfiguration, registry: MetricRegistry, flags: Mapping[str, str], clock: Clock
    ) -> None:
        self._config = config
        self._registry = registry
        self._flags = flags
        self._clock = clock
        self._started = clock.now()
        gates = parse_feature_gates(f"{name}={str(on).lower()}" for name, on in config.feature_gates.items())
        register_process_metrics(registry)
        register_feature_metrics(registry, feature_states(gates))

    async def handle(self, request: Request) -> Response:
        """Handle a request."""
        try:
            return self._page(request.path, request.headers.get("accept", ""))
        except ApiError as error:
            return Response(error.code, error.message.encode(), _TEXT)

    def _page(self, path: str, accept: str) -> Response:
        match path:
            case "/metrics":
                return Response(200, self._registry.render().encode(), _METRICS)
            case "/proxyMode":
                return Response(200, self._config.mode.encode(), _TEXT, _NO_SNIFF)
            case "/healthz":
                return Response(200, b"ok", _TEXT, _NO_SNIFF)
            case "/configz":
                shown = {"kubeproxy.config.k8s.io": plain_of(self._config)}
                return Response(200, msgspec.json.encode(shown), "application/json")
            case "/flagz":
                return flagz_response(COMPONENT, self._flags, accept)
            case "/statusz":
                return statusz_response(COMPONENT, self._started, self._clock.now(), _PATHS, accept)
        return Response(404, b"404 page not found\n", _TEXT)

# SPDX-License-Identifier: Apache-2.0
"""Metrics of the API server, under upstream's names.

handle, in-process calls ──▶ requests, filters: counted in plain attributes
handlers, admission, watches ──▶ server_metrics: families of one MetricRegistry
store, allocators, watch hubs ◀── storage, services: read on collection, never per request
                                      └──▶ /metrics
"""

from kubeloop.apiserver.metrics.server_metrics import ApiServerMetrics

__all__ = ["ApiServerMetrics"]

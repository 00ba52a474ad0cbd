# SPDX-License-Identifier: Apache-2.0
"""API aggregation: proxies requests of APIServices to extension API servers.

APIService ─▶ controller: one Remote each ─┬─ availability_controller ─▶ Available condition
                                           └─ discovery_cache ─▶ merged_discovery, merged_openapi
request ─▶ remote: endpoints (address), proxy_identity (user headers) ─▶ connection ─▶ responses (body, stream, upgrade)

Nothing of this is loaded until the first APIService that names a Service appears (lazy).
"""

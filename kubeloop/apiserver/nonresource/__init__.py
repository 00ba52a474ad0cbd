# SPDX-License-Identifier: Apache-2.0
"""Non-resource paths: health, version, metrics, discovery, OpenAPI, snapshot.

app ──▶ handler.NonResourceHandler ─┬─ health, metrics, version
                                    ├─ discovery.DiscoveryDocuments (aggregator.merged_discovery with extensions)
                                    └─ openapi.OpenAPI (aggregator.merged_openapi with extension API servers)
app ──▶ snapshot: the whole store as a file
"""

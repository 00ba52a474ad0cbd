"""Non-resource paths: health, version, metrics, discovery, OpenAPI, snapshot.

app ──▶ handler.Paths ──┬─ health, metrics, version
                        ├─ discovery.Discovery (aggregator.merged_discovery with extension API servers)
                        └─ openapi.OpenAPI (aggregator.merged_openapi with extension API servers)
app ──▶ snapshot: the whole store as a file
"""

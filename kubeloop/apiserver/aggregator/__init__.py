"""Groups that extension API servers answer for: this server stands before them, as one of many behind one address.

APIService ─▶ services: one remote for each ─┬─ availability: is it there, does it answer? ─▶ the Available condition
                                             └─ documents: what it serves ─▶ merged into discovery and OpenAPI
request ─▶ remote: where (addresses), as whom (identity) ─▶ connection ─▶ answer, stream or upgrade, as it comes

Nothing of this is loaded until the first APIService that names a Service appears.
"""

# SPDX-License-Identifier: Apache-2.0
"""HTTP transport of the client.

connect.py ─▶ Client over HttpTransport (transport.py) ─▶ ConnectionPool (pool.py) ─▶ dialer.py: TCP, proxy, TLS
─▶ kubeloop.http.client: HttpClientConnection.
messages.py: calls as requests, large lists from responses. lines.py: watches and logs.
rate_limit.py, deadlines.py: used by caller.py for every call. readiness.py: readiness probe.
"""

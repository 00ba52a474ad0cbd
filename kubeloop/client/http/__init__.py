"""HTTP transport of the client.

connect.py ─▶ Client over HttpTransport (transport.py) ─▶ Pool (pool.py) ─▶ dialer.py: TCP, proxy, TLS ─▶ Connection
messages.py: requests as bytes. watch_lines.py, large_lists.py: decode responses. text_lines.py: logs.
rate_limit.py, retries.py, deadlines.py: used by caller.py for every call. readiness.py: readiness probe.
"""

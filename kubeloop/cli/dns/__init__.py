# SPDX-License-Identifier: Apache-2.0
"""`kubeloop dns`: the cluster DNS server.

flags.py: settings ─▶ run.py: client, server, a clean end ─▶ status_ports.py: /health, /ready, /metrics
"""

# SPDX-License-Identifier: Apache-2.0
"""Kubelet server: endpoints of a node, and access to containers for the API server.

API server (same process) ──▶ dialer ──▶ Runtime (logs, exec, attach, portForward), endpoints
cli kubelet port ──▶ endpoints (authorization, pages) ──▶ reasons; status_endpoints (health, metrics) ──▶ stats
metrics_api serves metrics.k8s.io
"""

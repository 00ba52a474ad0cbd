# SPDX-License-Identifier: Apache-2.0
"""Connections to pods, services and nodes: log, exec, attach, port-forward and proxy.

pod_connect, proxy ── connect_options ──▶ node_connection ──▶ the kubelet of the node
"""

# SPDX-License-Identifier: Apache-2.0
"""Kubelet client: connects to kubelets of other processes over HTTPS, as upstream's API server does.

node ─▶ kubelet_address: host, port, path ─▶ kubelet_tls: verified connection ─┬▶ dialer: logs, proxied requests
                                                                               └▶ sessions (SPDY): exec, attach, ports
metrics_group ─▶ resource_metrics: metrics.k8s.io from kubelets; dialer.dial_pod: direct connections to pods
"""

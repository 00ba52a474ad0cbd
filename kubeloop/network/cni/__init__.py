# SPDX-License-Identifier: Apache-2.0
"""CNI: configuration of the container runtime, leaked addresses, and the plugin that reports addresses of new pods.

cni_config.py: pod CIDRs ──▶ config_writer.py: /etc/cni/net.d ──▶ runtime ──▶ ptp, host-local, …, kubeloop-policy
report_plugin.py (a program of its own) ── socket ──▶ report_server.py ──▶ the controller of network policies
"""

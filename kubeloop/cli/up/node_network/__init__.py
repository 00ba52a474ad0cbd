# SPDX-License-Identifier: Apache-2.0
"""Network of the real node of `kubeloop up`: pod network, service proxy and DNS, in the process of the control plane.

plan.py: flags ─▶ requirements.py: root, libraries, CNI folders and plugins ─▶ node_network.py: the three programs
cluster_dns.py: server, Service kube-dns       status_port.py: health, for `kubeloop status`
"""

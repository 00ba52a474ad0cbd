# SPDX-License-Identifier: Apache-2.0
"""`kubeloop network` program: the pod network and the network policies of one node.

flags.py ─▶ run.py ─▶ status_port.py: health and metrics
"""

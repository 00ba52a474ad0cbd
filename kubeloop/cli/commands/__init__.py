# SPDX-License-Identifier: Apache-2.0
"""Commands other than the components: load balancer, chaos runs, simulated nodes, snapshots.

main.py ─▶ balancer.py, chaos.py, node.py, snapshot.py
"""

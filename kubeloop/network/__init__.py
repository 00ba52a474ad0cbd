# SPDX-License-Identifier: Apache-2.0
"""Pod network and network policies of one node (`kubeloop network`).

nodes ──▶ agent.py: desired_state.py (pure) ─ difference ─ netlink; masquerade.py; cni; node condition
pods, namespaces, networkpolicies ──▶ policy: tables (pure) ─ changes ─ nftables
"""

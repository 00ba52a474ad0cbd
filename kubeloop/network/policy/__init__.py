# SPDX-License-Identifier: Apache-2.0
"""NetworkPolicy of networking.k8s.io/v1, enforced by nftables on the node of each pod.

pods ──▶ pod_addresses.py: owner of each address ─┐
namespaces, policies ─────────────────────────────┴▶ tables.PolicyTables ──▶ table.py: changes ──▶ one transaction
compiled_policy.py: one policy to chains and sets        evaluator.py: the API's semantics, read directly (for tests)
"""

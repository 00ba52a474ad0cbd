# SPDX-License-Identifier: Apache-2.0
"""Code shared by several plugins: resource scoring strategies, topology constraints, declared features.

node_resources_fit, balanced_allocation ──▶ resource_scores;  pod_topology_spread ──▶ topology_constraints
"""

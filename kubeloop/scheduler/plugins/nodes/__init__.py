# SPDX-License-Identifier: Apache-2.0
"""Plugins that depend only on the node object or the pods' ports: affinity, taints, name, ports, features.

framework.registry ──▶ these plugins ──▶ cache (labels, node_terms, taint_sets, port_use)
"""

# SPDX-License-Identifier: Apache-2.0
"""Validation of cluster-wide configuration: nodes, namespaces, RBAC, quotas, flow control, leases, events.

validation's table ──▶ one module per kind ──▶ shared (metadata, names, scalars, formats)
"""

# SPDX-License-Identifier: Apache-2.0
"""Service proxy: Services and EndpointSlices become the table kube-proxy of nftables, one for each IP family.

informers ──▶ tracker: changed Services ──▶ endpoint_selection ──▶ rules: the port's part of the table
                                                                      │ difference to the last sync
health, metrics, conntrack ◀── proxier ◀── one transaction ◀──────────┘
"""

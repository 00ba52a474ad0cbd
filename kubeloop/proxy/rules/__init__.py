# SPDX-License-Identifier: Apache-2.0
"""Contents of the table kube-proxy, as values: what the kernel holds, and what a trace walks.

base_table ─┐
port_rules ─┴─▶ ProxyTable: elements, chains, sets ──▶ TableChanges ──▶ scripts ──▶ nftables
"""

# SPDX-License-Identifier: Apache-2.0
"""DNS server: sockets, and the choice of the answer.

UDP socket ── datagrams.py ──┐                     ┌─ ClusterZone.answers: prepared, at once
                             ├──▶ DnsHandler ──────┼─ ClusterZone.lookup: negative answers, pods, external names
TCP socket ── streams.py ────┘     handler.py      └─ DnsForwarder: cached, or asked upstream by a task
metrics.py: CoreDNS's metrics. alias.py: targets of external names.
"""

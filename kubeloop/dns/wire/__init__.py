# SPDX-License-Identifier: Apache-2.0
"""DNS wire format (RFC 1035, 6891): names, queries, whole messages, and encoded answers.

datagram ── query.py ──▶ DnsQuery ──▶ handler ──▶ DnsAnswer ── answer.py ──▶ datagram, truncated to the client's limit
upstream's response ── message.py ──▶ DnsMessage, records          builder.py: records with compressed names
"""

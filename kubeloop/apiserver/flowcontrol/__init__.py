# SPDX-License-Identifier: Apache-2.0
"""API priority and fairness: shares the server's seats among flows of requests.

FlowSchema, PriorityLevelConfiguration ─▶ config ─▶ flow_schema_match ─▶ flow of a priority level
request ─▶ flow ─▶ priority_level: free seat? ─ yes ─▶ served at once
                     └─ no ─▶ one of the queues in the flow's hand (deal_hand) ─▶ served in turn, or 429

A flow is a FlowSchema's requests of one user, or in one namespace. Levels have their own seats, some of which they
lend each other; within a level flows are served fairly, so that a flow with many requests delays only itself.
"""

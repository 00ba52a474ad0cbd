"""Priority and fairness: how the server's attention is shared among those who ask for it.

FlowSchema, PriorityLevelConfiguration ─▶ configuration ─▶ matching: whose request is it? ─▶ a flow of a level
request ─▶ flow ─▶ level: a free seat? ─ yes ─▶ served at once
                     └─ no ─▶ one of the few queues that the flow was dealt ─▶ served in its turn, or refused with 429

A flow is what one FlowSchema says of one user, or one namespace. Levels have seats of their own, some of which they
lend each other; within a level flows take turns, so that one which asks for much waits for itself.
"""

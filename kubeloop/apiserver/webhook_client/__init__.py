"""Requests that this server makes of others: webhooks that are asked about a write, or to convert an object.

client config ─▶ callee: where, trusting whom, under which name ─▶ outgoing: kept connections ─▶ one whole answer

Every request has a deadline, every answer a largest size; nothing here knows what is asked.
"""

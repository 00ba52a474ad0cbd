"""Client of admission and conversion webhooks.

client_config: address, CA bundle, server name ─▶ client.Outgoing: pooled connections ─▶ one complete response

Every request has a timeout, every response a maximum size; the content is the caller's.
"""

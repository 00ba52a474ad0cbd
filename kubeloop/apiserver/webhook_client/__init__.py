"""Client of webhooks: of admission and conversion, and of reviews for authentication and authorization.

review_client: kubeconfig file, retries ─▶ client
client_config: address, CA bundle, server name ─▶ client.Outgoing: pooled connections ─▶ one complete response

Every request has a timeout, every response a maximum size; the content is the caller's.
"""

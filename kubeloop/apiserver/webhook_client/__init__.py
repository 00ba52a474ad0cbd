# SPDX-License-Identifier: Apache-2.0
"""Client of webhooks: of admission and conversion, and of reviews for authentication and authorization.

review_client: server of a kubeconfig file, retries ─▶ client; credentials: users of a kubeconfig file, by server
client_config: address, CA bundle, server name ─▶ client.WebhookHttpClient: pooled connections ─▶ response

Every request has a timeout, every response a maximum size; the content is the caller's.
"""

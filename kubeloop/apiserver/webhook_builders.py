# SPDX-License-Identifier: Apache-2.0
"""Builds the webhook authorizer and the webhook token authenticator from kubeconfig files."""

from __future__ import annotations

from collections.abc import Sequence

from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig, WebhookTokenAuthenticator
from kubeloop.apiserver.authorization.factory import AuthorizerConfig, WebhookBuilder
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizer
from kubeloop.apiserver.webhook_client.review_client import KubeconfigReader, ReviewClient
from kubeloop.clock import Clock


def webhook_builder(kubeconfigs: KubeconfigReader, clock: Clock) -> WebhookBuilder:
    """Return a function that builds a webhook authorizer; it raises ValueError."""

    def build(config: AuthorizerConfig) -> WebhookAuthorizer:
        webhook = config.webhook
        assert webhook is not None
        client = ReviewClient(kubeconfigs.endpoint(webhook.kubeconfig), clock, webhook.timeout)
        return WebhookAuthorizer(webhook, client, clock, config.conditions)

    return build


def token_webhook(
    config: WebhookAuthenticatorConfig, kubeconfigs: KubeconfigReader, audiences: Sequence[str], clock: Clock
) -> WebhookTokenAuthenticator:
    """Return the webhook token authenticator; raises ValueError."""
    return WebhookTokenAuthenticator(
        config, ReviewClient(kubeconfigs.endpoint(config.kubeconfig), clock), audiences, clock
    )

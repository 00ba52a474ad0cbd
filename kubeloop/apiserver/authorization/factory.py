# SPDX-License-Identifier: Apache-2.0
"""Builds authorizers from their configuration; Node and RBAC stay the same when it is reloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kubeloop.apiserver.authorization import AlwaysAllow, AlwaysDeny, AuthorizerMode, NamedAuthorizer, UnionAuthorizer
from kubeloop.apiserver.authorization.node import NodeAuthorizer
from kubeloop.apiserver.authorization.rbac import RBACAuthorizer

if TYPE_CHECKING:
    from kubeloop.apiserver.admission import Lookup
    from kubeloop.apiserver.authorization.webhook import MatchConditions, WebhookAuthorizer, WebhookAuthorizerConfig
    from kubeloop.apiserver.registry.storage import StorageRegistry

WEBHOOK = "Webhook"
# Name of the webhook that flags configure.
DEFAULT_WEBHOOK = "default"


class AuthorizerConfig(NamedTuple):
    """Configuration of one authorizer: its type, which is one of MODES, and its name."""

    type: str
    name: str
    webhook: WebhookAuthorizerConfig | None = None
    conditions: MatchConditions | None = None


# Builds a webhook authorizer; raises ValueError if its kubeconfig file cannot be used.
WebhookBuilder = Callable[[AuthorizerConfig], "WebhookAuthorizer"]


def configs_of_modes(modes: Sequence[str], webhook: WebhookAuthorizerConfig | None = None) -> list[AuthorizerConfig]:
    """Return the configuration of the modes that flags name."""
    return [
        AuthorizerConfig(mode, DEFAULT_WEBHOOK, webhook) if mode == WEBHOOK else AuthorizerConfig(mode, mode.lower())
        for mode in modes
    ]


class AuthorizerFactory:
    """Builds the union of configured authorizers, and rebuilds it for a new configuration."""

    def __init__(self, registry: StorageRegistry, objects: Lookup, build_webhook: WebhookBuilder | None = None) -> None:
        self._modes: dict[str, AuthorizerMode] = {
            "AlwaysAllow": AlwaysAllow(),
            "AlwaysDeny": AlwaysDeny(),
            "Node": NodeAuthorizer(registry, objects),
        }
        self._rbac = RBACAuthorizer(registry, objects)
        self._build_webhook = build_webhook

    def union(self, configs: Sequence[AuthorizerConfig]) -> UnionAuthorizer:
        """Return the union of the authorizers; raises ValueError."""
        has_rbac = any(one.type == "RBAC" for one in configs)
        return UnionAuthorizer(self.authorizers(configs), self._rbac if has_rbac else None)

    def authorizers(self, configs: Sequence[AuthorizerConfig]) -> list[NamedAuthorizer]:
        """Return the authorizers in order; raises ValueError."""
        return [NamedAuthorizer(one.name, self._authorizer(one)) for one in configs]

    def _authorizer(self, config: AuthorizerConfig) -> AuthorizerMode:
        if config.type == "RBAC":
            return self._rbac
        if config.type != WEBHOOK:
            return self._modes[config.type]
        assert self._build_webhook is not None, "a webhook needs a builder"
        return self._build_webhook(config)

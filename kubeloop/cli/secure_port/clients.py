# SPDX-License-Identifier: Apache-2.0
"""API clients of a manager: its own, and one per controller with its own rate limit and optional service account."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from pathlib import Path

from kubeloop.api.errors import AlreadyExists, ApiError, NotFound
from kubeloop.api.generated.core_v1 import ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.cli.program.files import write_private
from kubeloop.client import Client
from kubeloop.client.config.server_config import ImpersonationConfig, Pem, ServerConfig, in_cluster, load_config
from kubeloop.client.errors import ClientError, ConfigError
from kubeloop.client.http.rate_limit import TokenBucket
from kubeloop.client.http.transport import HttpTransport
from kubeloop.client.transport import ClientTransport
from kubeloop.clock import Clock
from kubeloop.controllers.app.config import ManagerConfig
from kubeloop.metrics import MetricRegistry
from kubeloop.runtime.causes.transport import CauseTransport
from kubeloop.runtime.leaderelection.fence import Fence, FencedTransport
from kubeloop.runtime.standard_metrics import RestClientMetrics

USER_AGENT = "kube-controller-manager"
SYSTEM = "kube-system"
_TOKEN_SECONDS = 3600  # upstream's
_RENEW_SECONDS = 0.8 * _TOKEN_SECONDS
_RETRY_SECONDS = 5.0
# Upstream's factors of --kube-api-qps and --kube-api-burst, by service account. The namespace controller calls once per
# kind of each namespace; the garbage collector needs two calls for each deletion.
_RATE_FACTORS = {"namespace-controller": (20, 100), "generic-garbage-collector": (2, 1)}

log = logging.getLogger(__name__)


def server_of(config: ManagerConfig) -> ServerConfig:
    """Return the API server of the flags, else of the cluster this runs in; never kubectl's default."""
    if config.kubeconfig:
        found = load_config(config.kubeconfig)
        return replace(found, server=config.master) if config.master else found
    if config.master:
        return ServerConfig(config.master)
    try:
        return in_cluster(os.environ)
    except ConfigError as error:
        raise ConfigError(f"--kubeconfig or --master is required outside of a cluster: {error}") from None


class ControllerClients:
    """All clients of one process."""

    def __init__(
        self, server: ServerConfig, config: ManagerConfig, clock: Clock, registry: MetricRegistry, folder: Path
    ) -> None:
        self._server = server
        self._config = config
        self._clock = clock
        self._metrics = RestClientMetrics(registry, server.server.partition("://")[2])
        self._transports: list[HttpTransport] = []
        self._shared = self._transport(server)
        self._accounts: dict[str, Path] = {}
        self._folder = folder  # private: for tokens
        self.token_error = ""  # why loops have no tokens
        self.fence: Fence | None = None  # set before loops are made, where leaders are elected

    def shared_client(self) -> Client:
        """Return the manager's own client, for reads and events; controllers write with others."""
        return self._client(self._shared)

    def election_client(self) -> Client:
        """Return a client with its own connections and rate limit."""
        return Client(self._transport(self._server), user_agent=f"{USER_AGENT}/leader-election", metrics=self._metrics)

    def kubeconfig_client(self, path: str) -> Client:
        """Return a client of a flag's kubeconfig; the manager's own if it is empty."""
        return self._client(self._transport(load_config(path))) if path else self.shared_client()

    def controller_client(self, account: str) -> Client:
        """Return a client whose writes are fenced by leadership and carry their cause."""
        transport: ClientTransport = self._shared
        if account and self._config.use_service_account_credentials:
            transport = self._transport(self._as_account(account))
        if self.fence is not None:
            transport = FencedTransport(transport, self.fence)
        client = self._client(CauseTransport(transport), _RATE_FACTORS.get(account, (1, 1)))
        return client.with_user_agent(f"{USER_AGENT}/{account or 'loaded'}")

    async def close(self) -> None:
        """Close all transports."""
        for one in self._transports:
            await one.close()

    # -- accounts

    async def get_tokens(self) -> None:
        """Wait until every requested service account has a token."""
        waiting = list(self._accounts)
        while waiting:
            for account in tuple(waiting):
                if await self._renewed(account):
                    waiting.remove(account)
            if waiting:
                await asyncio.sleep(_RETRY_SECONDS)

    async def renew_tokens(self) -> None:
        """Renew tokens before they expire, until cancelled."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            await self.get_tokens()

    async def _renewed(self, account: str) -> bool:
        client = self.shared_client()
        try:
            try:
                answer = await client.request_token(account, SYSTEM, seconds=_TOKEN_SECONDS)
            except NotFound:
                await self._make(client, account)
                answer = await client.request_token(account, SYSTEM, seconds=_TOKEN_SECONDS)
        except (ApiError, ClientError) as error:
            self.token_error = f"no token for the service account {SYSTEM}/{account}: {error}"
            log.warning(self.token_error)
            return False
        self.token_error = ""
        write_private(self._accounts[account], answer.status.token.encode())
        return True

    async def _make(self, client: Client, account: str) -> None:
        try:
            await client.create(ServiceAccount(metadata=ObjectMeta(name=account, namespace=SYSTEM)))
        except AlreadyExists:
            return

    def _as_account(self, account: str) -> ServerConfig:
        path = self._accounts[account] = self._folder / account
        nobody = ImpersonationConfig()
        return replace(
            self._server, certificate=Pem(), key=Pem(), token="", token_file=str(path), exec_plugin=None,
            impersonation=nobody,
        )  # fmt: skip

    # -- making

    def _transport(self, server: ServerConfig) -> HttpTransport:
        made = HttpTransport(server, self._clock, metrics=self._metrics, on_warning=log.debug)
        self._transports.append(made)
        return made

    def _client(self, transport: ClientTransport, rate_factors: tuple[int, int] = (1, 1)) -> Client:
        qps, burst = self._config.kube_api_qps * rate_factors[0], self._config.kube_api_burst * rate_factors[1]
        limiter = TokenBucket(qps, burst, self._clock) if qps > 0 else None
        return Client(transport, user_agent=USER_AGENT, limiter=limiter, metrics=self._metrics)

# SPDX-License-Identifier: Apache-2.0
"""Fills secrets of type `kubernetes.io/service-account-token` with a token, and deletes those without an account.

Watches: secrets of that type; service accounts, for their deletion.
Owns: nothing.
Writes: tokens, namespaces, CA certificates and annotations into secrets; deletes secrets whose account is gone; removes
  deleted secrets from the accounts that list them.
Wakes itself: never.
Differs from upstream: caches only secrets of that type. Failures are retried without limit, instead of ten times.
"""

from __future__ import annotations

import base64
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kubeloop.api import codec
from kubeloop.api.errors import Conflict, NotFound
from kubeloop.api.generated.core_v1 import Secret, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta, Preconditions
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers import InvalidControllers
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.manager import Loop
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.workqueue import WorkQueue

if TYPE_CHECKING:
    from kubeloop.api.signed_tokens import SigningKey

NAME: Final = "serviceaccount-token-controller"
QUEUE = "serviceaccount_tokens_service"  # upstream's queue name, as dashboards know it
TYPE: Final = "kubernetes.io/service-account-token"
ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
ACCOUNT_UID: Final = "kubernetes.io/service-account.uid"
ISSUER = "kubernetes/serviceaccount"
BY_ACCOUNT: Final = "account"
_PRIVATE_KEY = b"PRIVATE KEY-----"


class TokenKey(NamedTuple):
    """Queue key: a secret and its account, which nothing else identifies once the secret is gone."""

    namespace: str
    name: str
    account: str
    account_uid: str  # empty in a secret that was never processed


def wire(context: ControllerContext) -> Loop:
    """Build the controller, or a disabled one without a private key."""
    config = context.config
    if not config.service_account_private_key_file:
        return DisabledController(NAME)
    secrets = token_secrets(context)
    accounts = context.informers.for_resource(resource_of_class(ServiceAccount))
    minter = TokenContentGenerator(_key_in(config.service_account_private_key_file), context.root_ca)
    reconciler = Reconciler(context.client, secrets, accounts, minter)
    queue: WorkQueue[TokenKey] = WorkQueue(context.clock, name=QUEUE, registry=context.telemetry.registry)
    workers = config.concurrent_serviceaccount_token_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(secrets, lambda secret: (key_of_token(secret),), resync=context.resync_period())
    controller.watches(
        accounts, lambda account: map(key_of_token, secrets.by_index(BY_ACCOUNT, account_index(account))), _is_gone
    )
    return controller


def token_secrets(context: ControllerContext) -> Informer:
    """Return the informer for secrets of this type, indexed by account."""
    secrets = context.informers.for_resource(resource_of_class(Secret), fields=f"type={TYPE}")
    secrets.add_indexer(BY_ACCOUNT, _accounts_of)
    return secrets


class TokenContentGenerator:
    """Creates the missing content of secrets."""

    def __init__(self, key: bytes, root_ca: str) -> None:
        self._key = key
        self._root_ca = root_ca.encode()

    def missing_data(self, secret: Secret, account: ObjectMeta) -> dict[str, bytes]:
        """Return the content to add to a secret; empty if it is complete."""
        missing: dict[str, bytes] = {}
        if self._root_ca and secret.data.get("ca.crt") != self._root_ca:
            missing["ca.crt"] = self._root_ca
        if not secret.data.get("namespace"):
            missing["namespace"] = secret.metadata.namespace.encode()
        if not secret.data.get("token"):
            missing["token"] = self._signing.sign(claims_of(account, secret.metadata.name)).encode()
        return missing

    @cached_property
    def _signing(self) -> SigningKey:
        from kubeloop.api.signed_tokens import SigningKey  # slow to load, and few clusters still need such tokens

        return SigningKey(self._key)


class Reconciler:
    """Reconciles token secrets by key."""

    def __init__(self, client: Client, secrets: Informer, accounts: Informer, minter: TokenContentGenerator) -> None:
        self._client = client
        self._writer = PatchOrUpdate(client)
        self._secrets = secrets
        self._accounts = accounts
        self._minter = minter

    async def reconcile(self, key: TokenKey) -> None:
        """Complete one secret, delete it if its account is gone, or remove its reference if it is gone itself."""
        secret: Secret | None = self._secrets.get(key.namespace, key.name)
        if secret is None:
            await self._remove_reference(key)
            return
        if key_of_token(secret) != key:
            return  # it names another account by now, and was enqueued for that
        account = await self._account(key)
        if account is None:
            await self._delete(secret)
        elif missing := self._minter.missing_data(secret, account):
            await self._complete(secret, account, missing)

    async def _account(self, key: TokenKey) -> ObjectMeta | None:
        """Return the secret's account; its absence is confirmed by the server."""
        known = self._accounts.get(key.namespace, key.account)
        if known is not None and key.account_uid in ("", known.metadata.uid):
            found: ObjectMeta = known.metadata
            return found
        try:
            fresh = await self._client.get(ServiceAccount, key.account, key.namespace)
        except NotFound:
            return None
        return fresh.metadata if key.account_uid in ("", fresh.metadata.uid) else None

    async def _complete(self, secret: Secret, account: ObjectMeta, missing: dict[str, bytes]) -> None:
        meta = secret.metadata
        patch = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "annotations": {ACCOUNT_NAME: account.name, ACCOUNT_UID: account.uid},
            },
            "data": {name: base64.b64encode(value).decode() for name, value in missing.items()},
        }
        try:
            await self._writer.patch(resource_of_class(Secret), meta.name, patch, meta.namespace)
        except (Conflict, NotFound):
            return  # it has changed, whose event enqueues it, or is gone

    async def _delete(self, secret: Secret) -> None:
        meta = secret.metadata
        try:
            await self._client.delete(Secret, meta.name, meta.namespace, preconditions=Preconditions(uid=meta.uid))
        except (Conflict, NotFound):
            return  # another secret of this name is handled by its own key

    async def _remove_reference(self, key: TokenKey) -> None:
        """Remove a deleted secret from its account's list, unless it exists again."""
        known = self._accounts.get(key.namespace, key.account)
        if known is None or key.account_uid not in ("", known.metadata.uid):
            return
        try:
            account = await self._client.get(ServiceAccount, key.account, key.namespace)
            if key.account_uid not in ("", account.metadata.uid) or key.name not in _listed(account):
                return
            kept = [codec.to_plain(one) for one in account.secrets if one.name != key.name]
            meta = {"uid": account.metadata.uid, "resourceVersion": account.metadata.resource_version}
            patch = {"metadata": meta, "secrets": kept or None}
            await self._writer.patch(resource_of_class(ServiceAccount), key.account, patch, key.namespace)
        except NotFound:
            return


def key_of_token(secret: Secret) -> TokenKey:
    """Build the key of a secret."""
    meta = secret.metadata
    named = meta.annotations
    return TokenKey(meta.namespace, meta.name, named.get(ACCOUNT_NAME, ""), named.get(ACCOUNT_UID, ""))


def claims_of(account: ObjectMeta, secret: str) -> dict[str, Any]:
    """Build the claims of a token without expiry."""
    about = "kubernetes.io/serviceaccount/"
    return {
        "iss": ISSUER,
        f"{about}namespace": account.namespace,
        f"{about}secret.name": secret,
        f"{about}service-account.name": account.name,
        f"{about}service-account.uid": account.uid,
        "sub": f"system:serviceaccount:{account.namespace}:{account.name}",
    }


def account_index(account: Any) -> str:
    """Build the index value of an account."""
    return f"{account.metadata.namespace}/{account.metadata.name}"


def _accounts_of(secret: Secret) -> tuple[str, ...]:
    name = secret.metadata.annotations.get(ACCOUNT_NAME, "")
    return (f"{secret.metadata.namespace}/{name}",) if name else ()


def _listed(account: ServiceAccount) -> list[str]:
    return [one.name for one in account.secrets]


def _is_gone(_: Any, new: Any) -> bool:
    return new is None


def _key_in(path: str) -> bytes:
    try:
        key = Path(path).read_bytes()
    except OSError as error:
        raise InvalidControllers(f"--service-account-private-key-file: {error}") from None
    if _PRIVATE_KEY not in key:
        raise InvalidControllers(f"--service-account-private-key-file: {path} contains no private key")
    return key

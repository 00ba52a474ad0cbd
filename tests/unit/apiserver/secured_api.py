# SPDX-License-Identifier: Apache-2.0
"""API server with authorization and upstream's default roles, called as any user."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kubeloop.api.features.gates import DEFAULT_FEATURES
from kubeloop.api.features.resource_config import APIResourceConfig
from kubeloop.apiserver.admission import default_chain
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.admission.plugin_names import AdmissionOptions
from kubeloop.apiserver.admission.plugins.quota.quota_accessor import StoreQuotaAccessor
from kubeloop.apiserver.admission.setup import AdmissionSetup, PluginContext, set_up_admission
from kubeloop.apiserver.app import ApiServer, ApiServerDependencies
from kubeloop.apiserver.authentication import Authenticator, lazy_token_authenticator
from kubeloop.apiserver.authentication.bootstrap_tokens import BootstrapTokenAuthenticator
from kubeloop.apiserver.authorization import DEFAULT_MODES, UnionAuthorizer, authorizer_of
from kubeloop.apiserver.bootstrap import access_objects
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.flowcontrol.inflight import InFlightLimiter
from kubeloop.apiserver.nonresource.health import HealthChecks
from kubeloop.apiserver.request.context import User
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from tests.unit.apiserver.conftest import ADMIN, Answer, Api, ManualClock

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


class SecuredApi(Api):
    """`as_user` calls as a user that TLS or a token file would authenticate."""

    auditor: Any = None
    serving: APIResourceConfig | None = None
    admission_options = AdmissionOptions()

    def _serve(self) -> ApiServer:
        self.lookup = RegistryLookup(self.registry)
        self.authorizer = self.union()
        self.users: dict[str, User] = {"admin": ADMIN}
        recognizers = (
            self.users.get,
            BootstrapTokenAuthenticator(self.lookup, self.clock).authenticate,
            lazy_token_authenticator(lambda: self.tokens),
        )
        ledger = StoreQuotaAccessor(self.registry, self.lookup)
        return ApiServer(
            ApiServerDependencies(
                self.registry,
                self.clock,
                Authenticator({}, True, recognizers),
                default_chain(PluginContext(self.lookup, ledger, self.authorizer, setup=self._admission_setup())),
                InFlightLimiter(10, 10),
                HealthChecks({}, {}),
                lambda: "127.0.0.1:6443",
                self.tokens,
                self.authorizer,
                auditor=self.auditor,
                serving=self.serving,
            )
        )

    def union(self) -> UnionAuthorizer:
        """Decides; with the default modes, unless a test wants others."""
        return authorizer_of(DEFAULT_MODES, self.registry, self.lookup)

    def _admission_setup(self) -> AdmissionSetup:
        writer = BootstrapWriter(self.registry, self.clock, DEFAULT_FEATURES)
        return set_up_admission(
            self.admission_options, self.registry, self.clock, writer, WebhookKubeconfigReader(self.clock)
        )

    def bootstrap(self) -> None:
        """Upstream's default roles and bindings."""
        self._runner.run(BootstrapWriter(self.registry, self.clock, DEFAULT_FEATURES).ensure(access_objects()))

    def knows(self, name: str, *groups: str) -> str:
        """Add a user; returns its token."""
        self.users[name] = User(name, (*groups, "system:authenticated"))
        return name

    def may(self, what: str, *, user: str = "", group: str = "", account: str = "", namespace: str = "") -> str:
        """Give a right such as `get list: pods @apps` in a namespace or everywhere; the binding's name."""
        from kubeloop.apiserver.bootstrap.policy_notation import parse_rule

        subject: dict[str, str] = {"kind": "User", "apiGroup": GROUP, "name": user}
        if group:
            subject = {"kind": "Group", "apiGroup": GROUP, "name": group}
        if account:
            home, _, name = account.partition("/")
            subject = {"kind": "ServiceAccount", "namespace": home, "name": name}
        made = parse_rule(what)
        rules = {
            "verbs": made.verbs,
            "apiGroups": made.api_groups,
            "resources": made.resources,
            "resourceNames": made.resource_names,
            "nonResourceURLs": made.non_resource_urls,
        }
        name = f"r{self.store.revision}"
        kind = "Role" if namespace else "ClusterRole"
        where = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/"
        self.made(
            f"{where}{kind.lower()}s", {"metadata": {"name": name}, "rules": [{k: v for k, v in rules.items() if v}]}
        )
        self.bind(name, subject, kind=kind, namespace=namespace)
        return name

    def bind(self, role: str, subject: dict[str, str], *, kind: str = "ClusterRole", namespace: str = "") -> None:
        plural = "rolebindings" if namespace else "clusterrolebindings"
        where = f"{RBAC}/namespaces/{namespace}/{plural}" if namespace else f"{RBAC}/{plural}"
        ref = {"apiGroup": GROUP, "kind": kind, "name": role}
        self.made(where, {"metadata": {"name": f"b{self.store.revision}"}, "roleRef": ref, "subjects": [subject]})

    def namespace(self, name: str) -> str:
        self.made("/api/v1/namespaces", {"metadata": {"name": name}})
        self.made(f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        return f"/api/v1/namespaces/{name}"


@contextmanager
def secured_api(auditor: Any = None, admission_options: AdmissionOptions | None = None) -> Iterator[SecuredApi]:
    changes: dict[str, Any] = {} if auditor is None else {"auditor": auditor}
    if admission_options is not None:
        changes["admission_options"] = admission_options
    kind = type("ChangedApi", (SecuredApi,), changes) if changes else SecuredApi
    with asyncio.Runner() as runner:
        yield kind(runner, ManualClock())


def refused(answer: Answer) -> str:
    """The message of a refusal."""
    assert answer.status == 403, answer.body
    assert answer.body["reason"] == "Forbidden"
    message: str = answer.body["message"]
    return message

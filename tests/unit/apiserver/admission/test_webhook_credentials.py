# SPDX-License-Identifier: Apache-2.0
"""Credentials of webhook clients: which user of a kubeconfig a server gets, and what the server sees of it."""

from __future__ import annotations

import asyncio

import pytest

from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError, AdmissionOptions
from kubeloop.cli.apiserver.webhook_kubeconfig import WebhookKubeconfigReader
from tests.unit.apiserver.admission.hook_server import HookServer, make_pki
from tests.unit.apiserver.conftest import ManualClock
from tests.unit.apiserver.secured_api import SecuredApi

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
USERS = """
users:
- {{name: "*", user: {{token: any}}}}
- {{name: "*.shop.svc", user: {{token: shop}}}}
- {{name: "hooks.shop.svc:8443", user: {{username: jane, password: pw}}}}
- {{name: "plain.shop.svc", user: {{token: without-port}}}}
- {{name: "127.0.0.1:{port}", user: {{client-certificate: {certificate}, client-key: {key}, tokenFile: token}}}}
"""


def _config(tmp_path, text):
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    return WebhookKubeconfigReader(ManualClock()).users(path)


@pytest.mark.parametrize(
    ("server", "header"),
    [
        ("hooks.shop.svc:8443", "Basic amFuZTpwdw=="),
        ("other.shop.svc:443", "Bearer shop"),
        ("plain.shop.svc:443", "Bearer without-port"),
        ("plain.shop.svc:444", "Bearer any"),
        ("example.com:443", "Bearer any"),
    ],
)
def test_the_most_specific_user_is_taken(tmp_path, server, header):
    config = _config(tmp_path, USERS.format(port=1, certificate="c", key="k"))
    assert list(config.credentials_for(server).headers()) == [("Authorization", header)]


def test_the_current_contexts_user_is_the_last_choice(tmp_path):
    text = "users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {user: u}}]\n"
    assert list(_config(tmp_path, text).credentials_for("a:1").headers()) == []
    chosen = _config(tmp_path, text + "current-context: x").credentials_for("a:1")
    assert list(chosen.headers()) == [("Authorization", "Bearer t")]


@pytest.mark.parametrize("text", ["users: 1", "{", "users: [{name: u, user: {exec: {command: x}}}]"])
def test_an_unusable_kubeconfig_is_refused(tmp_path, text):
    with pytest.raises(ValueError):
        _config(tmp_path, text)


def _admission_file(tmp_path, kubeconfig):
    file = tmp_path / "admission.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
        "- name: ValidatingAdmissionWebhook\n  configuration:\n"
        "    {apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, "
        f"kubeConfigFile: {kubeconfig}}}\n"
    )
    return file


def _hooked(runner, tmp_path, hooks, disable=()):
    kubeconfig = tmp_path / "kubeconfig"
    pki = hooks.pki
    (tmp_path / "token").write_text("from-file\n")
    kubeconfig.write_text(USERS.format(port=hooks.port, certificate=pki.admin_certificate, key=pki.admin_key))
    options = AdmissionOptions((), disable, (), _admission_file(tmp_path, kubeconfig))
    api = type("HookedApi", (SecuredApi,), {"admission_options": options})(runner, ManualClock())
    api.namespace("shop")
    for kind in ("validating", "mutating"):
        hooks.behaviours[f"/{kind}"] = lambda _: {"allowed": True}
        hook = {
            "name": "a.example.com",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": hooks.client(f"/{kind}"),
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }
        body = {"metadata": {"name": kind}, "webhooks": [hook]}
        assert api.post(f"{CONFIGURATIONS}/{kind}webhookconfigurations", body).status == 201
    return api


@pytest.fixture
def hooks(tmp_path):
    with asyncio.Runner() as runner:
        server = HookServer(make_pki(tmp_path))
        runner.run(server.start())
        server.runner = runner
        yield server
        runner.run(server.stop())


def test_only_the_configured_plugins_webhooks_get_credentials(hooks, tmp_path):
    api = _hooked(hooks.runner, tmp_path, hooks)
    assert api.post("/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "m"}}).status == 201
    mutating, validating = hooks.heads
    assert "Authorization" not in mutating
    assert "Authorization: Bearer from-file\r\n" in validating
    assert hooks.certificates[0] is None
    assert "kubernetes-admin" in str(hooks.certificates[1]["subject"])


def test_disabled_webhook_plugins_call_nothing(hooks, tmp_path):
    api = _hooked(hooks.runner, tmp_path, hooks, ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"))
    assert api.post("/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "m"}}).status == 201
    assert hooks.heads == []


def test_a_missing_kubeconfig_prevents_the_start(tmp_path):
    options = AdmissionOptions(config_file=_admission_file(tmp_path, tmp_path / "none"))
    with asyncio.Runner() as runner, pytest.raises(AdmissionConfigError, match="couldn't init admission plugin"):
        type("HookedApi", (SecuredApi,), {"admission_options": options})(runner, ManualClock())

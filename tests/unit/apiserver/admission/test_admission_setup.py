# SPDX-License-Identifier: Apache-2.0
"""Flags and configuration files of admission: selection, order, refusals in upstream's words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kubeloop.apiserver.admission import default_chain
from kubeloop.apiserver.admission.configuration import read_plugin_configurations
from kubeloop.apiserver.admission.plugin_names import (
    DEFAULT_PLUGINS,
    ORDERED_PLUGINS,
    AdmissionConfigError,
    AdmissionOptions,
    select_plugins,
)
from kubeloop.apiserver.admission.plugins.quota.resource_quota import ResourceQuotaConfiguration
from kubeloop.apiserver.admission.setup import AdmissionSetup, PluginContext

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (AdmissionOptions(("Foo",)), 'enable-admission-plugins plugin "Foo" is unknown'),
        (AdmissionOptions((), ("Foo",)), 'disable-admission-plugins plugin "Foo" is unknown'),
        (AdmissionOptions(only=("Foo",)), 'admission-control plugin "Foo" is unknown'),
        (
            AdmissionOptions(("AlwaysDeny",), ("AlwaysDeny",)),
            "[AlwaysDeny] in enable-admission-plugins and disable-admission-plugins overlapped",
        ),
        (
            AdmissionOptions(("AlwaysDeny",), only=("AlwaysAdmit",)),
            "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
        ),
        (
            AdmissionOptions(("A", "B")),
            '[enable-admission-plugins plugin "A" is unknown, enable-admission-plugins plugin "B" is unknown]',
        ),
    ],
)
def test_wrong_flags_are_refused(options, message):
    with pytest.raises(AdmissionConfigError) as caught:
        select_plugins(options)
    assert str(caught.value) == message


def test_flags_add_to_the_defaults_and_take_away():
    chosen = select_plugins(AdmissionOptions(("AlwaysPullImages",), ("PodSecurity",)))
    assert chosen == (DEFAULT_PLUGINS | {"AlwaysPullImages"}) - {"PodSecurity"}
    assert select_plugins(AdmissionOptions(only=("LimitRanger",))) == {"LimitRanger"}


def test_upstreams_plugins_are_known_and_half_of_the_optional_ones_are_off():
    assert len(ORDERED_PLUGINS) == 39
    assert len(DEFAULT_PLUGINS) == 26


def test_plugins_run_in_upstreams_order(cluster):
    enabled = frozenset(ORDERED_PLUGINS) - {
        "ImagePolicyWebhook",
        "NamespaceAutoProvision",
        "OwnerReferencesPermissionEnforcement",
    }
    chain = default_chain(PluginContext(cluster, cluster, setup=AdmissionSetup(enabled)))
    names = [plugin.name for plugin in chain.plugins if plugin.name in ORDERED_PLUGINS]
    assert names == [name for name in ORDERED_PLUGINS if name in names]
    assert names[0] == "AlwaysAdmit"
    assert names[-1] == "AlwaysDeny"


def test_a_disabled_plugin_is_not_in_the_chain(cluster):
    chain = default_chain(PluginContext(cluster, cluster, setup=AdmissionSetup(DEFAULT_PLUGINS - {"PodSecurity"})))
    assert "PodSecurity" not in [plugin.name for plugin in chain.plugins]


def test_plugins_that_are_off_are_not_loaded():
    code = (
        "import sys, kubeloop.apiserver.admission.built_in as b\n"
        "ends = ('optional_plugins', 'event_rate_limit', 'image_policy_webhook')\n"
        "off = [name for name in sys.modules if name.endswith(ends)]\n"
        "sys.exit(repr(off) if off else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- files ------------------------------------------------------------------------------------------------------------


def _refusal(path, text, *plugins):
    path.write_text(text)
    with pytest.raises(AdmissionConfigError) as caught:
        read_plugin_configurations(path, DEFAULT_PLUGINS | set(plugins))
    return str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    path = tmp_path / "none.yaml"
    with pytest.raises(AdmissionConfigError) as caught:
        read_plugin_configurations(path, DEFAULT_PLUGINS)
    assert str(caught.value) == (
        f'failed to read plugin config: unable to read admission control configuration from "{path}" '
        f"[open {path}: no such file or directory]"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Foo\napiVersion: v1\n", 'failed to read plugin config: no kind "Foo" is registered for version "v1"'),
        ("a: b\n", "failed to read plugin config: Object 'Kind' is missing"),
        ("kind: AdmissionConfiguration\n", "failed to read plugin config: Object 'apiVersion' is missing"),
        (
            HEAD + "- name: A\n  foo: b\n",
            'failed to read plugin config: strict decoding error: unknown field "plugins[0].foo"',
        ),
        (HEAD + "- name: [A]\n", "failed to read plugin config: strict decoding error: "),
        ("{", "failed to read plugin config: "),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, text, message):
    assert _refusal(tmp_path / "a.yaml", text).startswith(message)


def _plugin(name, body):
    return f"{HEAD}- name: {name}\n  configuration:\n" + "".join(f"    {line}\n" for line in body.splitlines())


POD_SECURITY = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
EVENTS = "apiVersion: eventratelimit.admission.k8s.io/v1alpha1\nkind: Configuration\n"
TOLERATIONS = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"
QUOTA = "apiVersion: apiserver.config.k8s.io/v1\nkind: ResourceQuotaConfiguration\n"
WEBHOOK = "apiVersion: apiserver.config.k8s.io/v1\nkind: WebhookAdmissionConfiguration\n"


@pytest.mark.parametrize(
    ("plugin", "body", "message"),
    [
        ("EventRateLimit", EVENTS, "limits: Invalid value: null: must not be empty"),
        (
            "EventRateLimit",
            EVENTS + "limits: [{type: Foo, qps: 1, burst: 1}]",
            'limits[0].type: Unsupported value: "Foo": supported values: "Namespace", "Server", "SourceAndObject", '
            '"User"',
        ),
        (
            "EventRateLimit",
            EVENTS + "limits: [{type: User, qps: 0, burst: -1, cacheSize: -1}]",
            "[limits[0].burst: Invalid value: -1: must be positive, limits[0].qps: Invalid value: 0: must be positive, "
            "limits[0].cacheSize: Invalid value: -1: must not be negative]",
        ),
        ("EventRateLimit", "kind: Other\napiVersion: v1", 'no kind "Other" is registered for version "v1"'),
        (
            "PodTolerationRestriction",
            TOLERATIONS + "default: [{operator: Equal}]",
            "invalid config: [podtolerationrestriction.default[0].operator: Invalid value: ",
        ),
        ("ResourceQuota", QUOTA + "limitedResources: [{}]", "limitedResources[0].resource: Required value"),
        ("ResourceQuota", QUOTA + "foo: 1", 'strict decoding error: unknown field "foo"'),
        (
            "ValidatingAdmissionWebhook",
            WEBHOOK + "kubeConfigFile: a/b",
            'kubeConfigFile: Invalid value: "a/b": must be an absolute file path',
        ),
        (
            "MutatingAdmissionWebhook",
            WEBHOOK + "staticManifestsDir: /a",
            "staticManifestsDir: Forbidden: static manifests are not supported",
        ),
    ],
)
def test_a_wrong_configuration_of_a_plugin_is_refused(tmp_path, plugin, body, message):
    told = _refusal(tmp_path / "a.yaml", _plugin(plugin, body), plugin)
    assert told.startswith(f'couldn\'t init admission plugin "{plugin}": {message}')


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "defaults: {enforce: strict, audit-version: v2}",
            "PodSecurity configuration error: [enforce: must be one of privileged, baseline, restricted, "
            'audit-version: must be "latest" or "v1.x"]',
        ),
        (
            "exemptions: {namespaces: [a, a], runtimeClasses: ['_'], usernames: ['']}",
            'PodSecurity invalid: [exemptions.namespaces[1]: Duplicate value: "a", '
            'exemptions.runtimeClasses[0]: Invalid value: "_": ',
        ),
        (
            "exemptions: {usernames: ['']}",
            'PodSecurity invalid: exemptions.usernames[0]: Invalid value: "": username must not be empty',
        ),
    ],
)
def test_a_wrong_pod_security_configuration_is_refused(tmp_path, body, message):
    told = _refusal(tmp_path / "a.yaml", _plugin("PodSecurity", POD_SECURITY + body))
    assert told.startswith(f'failed to initialize admission plugin "PodSecurity": {message}')


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        ("EventRateLimit", "limits: Invalid value: null: must not be empty"),
        ("ImagePolicyWebhook", "no config specified"),
    ],
)
def test_some_plugins_require_a_configuration(plugin, message):
    with pytest.raises(AdmissionConfigError) as caught:
        read_plugin_configurations(None, frozenset({plugin}))
    assert str(caught.value) == f'couldn\'t init admission plugin "{plugin}": {message}'


def test_the_configuration_of_a_disabled_plugin_is_not_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(_plugin("EventRateLimit", EVENTS))
    read_plugin_configurations(path, DEFAULT_PLUGINS)


def test_a_configuration_may_be_in_a_file_of_its_own(tmp_path):
    (tmp_path / "quota.yaml").write_text(QUOTA + "limitedResources: [{resource: pods, matchContains: [pods]}]")
    path = tmp_path / "a.yaml"
    path.write_text(f"{HEAD}- name: ResourceQuota\n  path: quota.yaml\n")
    found = read_plugin_configurations(path, DEFAULT_PLUGINS).get("ResourceQuota", ResourceQuotaConfiguration)
    assert [one.resource for one in found.limited_resources] == ["pods"]
    path.write_text(f"{HEAD}- name: ResourceQuota\n  path: none.yaml\n")
    with pytest.raises(AdmissionConfigError, match="Couldn't open admission plugin configuration"):
        read_plugin_configurations(path, DEFAULT_PLUGINS)


def test_a_legacy_file_configures_its_plugin_directly(tmp_path):
    from kubeloop.apiserver.admission.plugins.pods.pod_node_selector import PodNodeSelectorConfiguration

    path = tmp_path / "a.yaml"
    path.write_text("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}")
    found = read_plugin_configurations(path, frozenset({"PodNodeSelector"}))
    selectors = found.get("PodNodeSelector", PodNodeSelectorConfiguration).selectors
    assert selectors == {"clusterDefaultNodeSelector": "a=b"}

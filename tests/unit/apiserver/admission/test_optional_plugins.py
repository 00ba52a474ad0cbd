# SPDX-License-Identifier: Apache-2.0
"""Plugins that are off by default, over the API of a server whose flags enable them."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from kubeloop.apiserver.admission.plugin_names import AdmissionOptions
from tests.unit.apiserver.conftest import POD_SPEC
from tests.unit.apiserver.secured_api import refused, secured_api

PODS = "/api/v1/namespaces/shop/pods"
SERVICES = "/api/v1/namespaces/shop/services"
EVENTS = "/api/v1/namespaces/shop/events"


@pytest.fixture
def serve(tmp_path):
    """Starts a server with some plugins and, optionally, their configuration file."""
    with ExitStack() as stack:

        def start(*plugins, config="", annotations=None, disable=()):
            file = None
            if config:
                file = tmp_path / "admission.yaml"
                file.write_text(config)
            options = AdmissionOptions(plugins, disable, (), file)
            api = stack.enter_context(secured_api(admission_options=options))
            api.post("/api/v1/namespaces", {"metadata": {"name": "shop", "annotations": annotations or {}}})
            api.post("/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "default"}})
            return api

        yield start


def _configured(plugin, body):
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    return (
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
        f"- name: {plugin}\n  configuration:\n{lines}\n"
    )


def _pod(api, name="p", metadata=None, **spec):
    return api.post(PODS, {"metadata": {"name": name, **(metadata or {})}, "spec": {**POD_SPEC, **spec}})


# -- AlwaysAdmit, AlwaysDeny ------------------------------------------------------------------------------------------


def test_always_admit_changes_nothing(serve):
    assert _pod(serve("AlwaysAdmit")).status == 201


def test_always_deny_refuses_every_write(serve):
    api = serve("AlwaysDeny")
    told = refused(api.post("/api/v1/namespaces", {"metadata": {"name": "other"}}))
    assert told == 'namespaces "other" is forbidden: admission control is denying all modifications'
    assert api.get("/api/v1/namespaces").status == 200


# -- AlwaysPullImages -------------------------------------------------------------------------------------------------

IMAGE_VOLUME = {"name": "v", "image": {"reference": "data", "pullPolicy": "IfNotPresent"}}


def test_all_images_of_a_new_pod_are_pulled(serve):
    api = serve("AlwaysPullImages")
    spec = _pod(
        api,
        containers=[{"name": "c", "image": "nginx:1", "imagePullPolicy": "Never"}],
        initContainers=[{"name": "i", "image": "nginx:1"}],
        volumes=[IMAGE_VOLUME],
    ).body["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["initContainers"][0]["imagePullPolicy"] == "Always"
    assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"


def test_without_the_plugin_pull_policies_stay():
    with secured_api() as api:
        api.namespace("shop")
        spec = _pod(api, containers=[{"name": "c", "image": "nginx:1"}]).body["spec"]
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_a_policy_that_was_changed_after_mutation_is_refused(writes_with):
    writes = writes_with("AlwaysPullImages")
    containers = [{"name": "a", "image": "x:1", "imagePullPolicy": "Never"}]
    told = writes.validate("pods", {"containers": containers, "volumes": [IMAGE_VOLUME]})
    assert told == (
        '[pods "x" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: "Never": '
        'supported values: "Always", pods "x" is forbidden: spec.volumes[0].image.pullPolicy: '
        'Unsupported value: "IfNotPresent": supported values: "Always"]'
    )


def test_an_update_without_new_images_is_left_alone(writes_with):
    writes = writes_with("AlwaysPullImages")
    old = {"containers": [{"name": "a", "image": "x:1", "imagePullPolicy": "Never"}]}
    assert writes.update_spec("pods", old, old)["containers"][0]["imagePullPolicy"] == "Never"
    new = {"containers": [{"name": "a", "image": "x:2", "imagePullPolicy": "Never"}]}
    assert writes.update_spec("pods", old, new)["containers"][0]["imagePullPolicy"] == "Always"


# -- DenyServiceExternalIPs -------------------------------------------------------------------------------------------


def _service(*ips):
    return {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": list(ips)}}


def test_new_external_addresses_are_denied(serve):
    api = serve("DenyServiceExternalIPs")
    told = refused(api.post(SERVICES, _service("192.0.2.1")))
    assert told == 'services "s" is forbidden: Use of external IPs is denied by admission control'
    assert api.post(SERVICES, _service()).status == 201


def test_present_external_addresses_may_stay(writes_with):
    writes = writes_with("DenyServiceExternalIPs")
    old = {"externalIPs": ["192.0.2.1", "192.0.2.2"]}
    writes.update_spec("services", old, {"externalIPs": ["192.0.2.2"]})
    told = writes.refused_update("services", old, {"externalIPs": ["192.0.2.3"]})
    assert told.endswith("Use of external IPs is denied by admission control")


# -- namespaces -------------------------------------------------------------------------------------------------------


def test_a_missing_namespace_is_created_with_the_first_object(serve):
    api = serve("NamespaceAutoProvision")
    answer = api.post("/api/v1/namespaces/fresh/configmaps", {"metadata": {"name": "m"}})
    assert answer.status == 201
    made = api.get("/api/v1/namespaces/fresh").body
    assert made["status"]["phase"] == "Active"
    assert made["spec"]["finalizers"] == ["kubernetes"]
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "fresh"}


def test_a_dry_run_creates_no_namespace(serve):
    api = serve("NamespaceAutoProvision")
    assert api.post("/api/v1/namespaces/fresh/configmaps?dryRun=All", {"metadata": {"name": "m"}}).status == 404
    assert api.get("/api/v1/namespaces/fresh").status == 404


def test_a_namespace_must_exist_for_every_write(serve, writes_with):
    api = serve("NamespaceExists", disable=("NamespaceLifecycle",))
    answer = api.post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "m"}})
    assert (answer.status, answer.body["message"]) == (404, 'namespaces "nowhere" not found')
    assert api.post("/api/v1/namespaces/shop/configmaps", {"metadata": {"name": "m"}}).status == 201
    assert api.post("/api/v1/nodes", {"metadata": {"name": "n"}}).status == 201


def test_without_namespace_lifecycle_objects_need_no_namespace(serve):
    api = serve(disable=("NamespaceLifecycle",))
    assert api.post("/api/v1/namespaces/nowhere/configmaps", {"metadata": {"name": "m"}}).status == 201


# -- LimitPodHardAntiAffinityTopology ---------------------------------------------------------------------------------


def test_required_anti_affinity_is_limited_to_nodes(serve):
    api = serve("LimitPodHardAntiAffinityTopology")

    def spread(key):
        term = {"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}}
        return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    told = refused(_pod(api, affinity=spread("zone")))
    assert told == (
        'pods "p" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone '
        "but only key kubernetes.io/hostname is allowed"
    )
    assert _pod(api, affinity=spread("kubernetes.io/hostname")).status == 201
    assert _pod(api, "q", affinity={}).status == 201


# -- ExtendedResourceToleration ---------------------------------------------------------------------------------------


def test_pods_tolerate_the_nodes_of_their_extended_resources(serve):
    api = serve("ExtendedResourceToleration")
    device = {"limits": {"example.com/b": "1", "example.com/a": "1", "cpu": "1"}}
    kept = {"key": "example.com/a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": None}
    made = _pod(
        api,
        containers=[{"name": "c", "image": "x", "resources": device}],
        initContainers=[{"name": "i", "image": "x", "resources": {"limits": {"example.com/c": "1"}}}],
        tolerations=[kept],
    )
    added = [one for one in made.body["spec"]["tolerations"] if one["key"].startswith("example.com/")]
    assert added == [
        {"key": f"example.com/{name}", "operator": "Exists", "effect": "NoSchedule"} for name in ("a", "b", "c")
    ]


# -- PodNodeSelector --------------------------------------------------------------------------------------------------

SELECTORS = """
podNodeSelectorPluginConfig:
  clusterDefaultNodeSelector: pool=default
  shop: pool=default,disk=ssd,pool=web
"""
ANNOTATION = "scheduler.alpha.kubernetes.io/node-selector"


def test_pods_get_the_clusters_default_node_selector(serve):
    api = serve(
        "PodNodeSelector",
        config=_configured(
            "PodNodeSelector", "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=default"
        ),
    )
    assert _pod(api, nodeSelector={"disk": "ssd"}).body["spec"]["nodeSelector"] == {"pool": "default", "disk": "ssd"}
    told = refused(_pod(api, "q", nodeSelector={"pool": "other"}))
    assert told == 'pods "q" is forbidden: pod node label selector conflicts with its namespace node label selector'


def test_mutating_plugins_see_no_generated_name(serve):
    api = serve("PodNodeSelector", annotations={ANNOTATION: "pool=web"})
    body = {"metadata": {"generateName": "g-"}, "spec": {**POD_SPEC, "nodeSelector": {"pool": "x"}}}
    assert refused(api.post(PODS, body)).startswith("pods is forbidden: pod node label selector conflicts")
    body = {"metadata": {"generateName": "g-"}, "spec": {**POD_SPEC, "serviceAccountName": "none"}}
    assert refused(api.post(PODS, body)).startswith('pods "g-" is forbidden: error looking up service account')


def test_a_namespaces_annotation_precedes_the_default(serve):
    config = _configured("PodNodeSelector", SELECTORS)
    api = serve("PodNodeSelector", config=config, annotations={ANNOTATION: "pool=web, disk=ssd"})
    assert _pod(api).body["spec"]["nodeSelector"] == {"pool": "web", "disk": "ssd"}
    told = refused(_pod(api, "q", nodeSelector={"zone": "a"}))
    assert told == 'pods "q" is forbidden: pod node label selector labels conflict with its namespace whitelist'


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("pool", "invalid selector: [pool]"),
        ("a=b=c", "invalid selector: [a b c]"),
        ("a/b/c=d", '<nil>: Invalid value: "a/b/c": a valid label key must'),
        ("a=!", '<nil>: Invalid value: "!": a valid label must'),
    ],
)
def test_an_invalid_selector_of_a_namespace_is_an_internal_error(serve, selector, message):
    answer = _pod(serve("PodNodeSelector", annotations={ANNOTATION: selector}))
    assert answer.status == 500
    assert answer.body["message"].startswith(message.partition(" a valid")[0])


def test_the_selector_of_a_missing_namespace_is_an_internal_error(serve):
    api = serve("PodNodeSelector", disable=("NamespaceLifecycle", "ServiceAccount"))
    answer = api.post("/api/v1/namespaces/nowhere/pods", {"metadata": {"name": "p"}, "spec": POD_SPEC})
    assert answer.body["message"] == "Internal error occurred: namespace nowhere does not exist"


# -- PodTolerationRestriction -----------------------------------------------------------------------------------------

DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
RESTRICTION = """
apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
default:
- {key: cluster, operator: Exists}
whitelist:
- {key: cluster, operator: Exists}
- {key: node.kubernetes.io/not-ready, operator: Exists}
- {key: node.kubernetes.io/unreachable, operator: Exists}
- {key: node.kubernetes.io/memory-pressure, operator: Exists}
"""
CONFLICT = "pod tolerations (possibly merged with namespace default tolerations) conflict with its {} whitelist"


def _keys(answer):
    assert answer.status == 201, answer.body
    return [one.get("key", "") for one in answer.body["spec"]["tolerations"]]


def test_pods_get_default_tolerations_within_the_whitelist(serve):
    api = serve("PodTolerationRestriction", config=_configured("PodTolerationRestriction", RESTRICTION))
    assert "cluster" in _keys(_pod(api))
    answer = _pod(api, "q", tolerations=[{"key": "other", "operator": "Exists"}])
    assert (answer.status, answer.body["message"]) == (500, CONFLICT.format("cluster"))


def test_a_namespaces_tolerations_precede_those_of_the_cluster(serve):
    own = {DEFAULTS: '[{"key": "own", "operator": "Exists"}]', WHITELIST: '[{"operator": "Exists"}]'}
    config = _configured("PodTolerationRestriction", RESTRICTION)
    api = serve("PodTolerationRestriction", config=config, annotations=own)
    keys = _keys(_pod(api, tolerations=[{"key": "other", "operator": "Exists"}]))
    assert "own" in keys
    assert "cluster" not in keys


def test_a_namespaces_whitelist_is_named_in_the_refusal(serve):
    api = serve("PodTolerationRestriction", annotations={WHITELIST: '[{"key": "own", "operator": "Exists"}]'})
    assert _pod(api).body["message"] == CONFLICT.format("namespace")


def test_an_empty_annotation_means_no_tolerations(serve):
    config = _configured("PodTolerationRestriction", RESTRICTION)
    api = serve("PodTolerationRestriction", config=config, annotations={DEFAULTS: "", WHITELIST: ""})
    assert "cluster" not in _keys(_pod(api, tolerations=[{"key": "other", "operator": "Exists"}]))


def test_pods_with_requests_tolerate_memory_pressure(serve):
    api = serve("PodTolerationRestriction")
    limited = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    assert "node.kubernetes.io/memory-pressure" in _keys(_pod(api, containers=limited))
    assert "node.kubernetes.io/memory-pressure" not in _keys(_pod(api, "q"))


def test_an_annotation_that_is_no_json_is_an_internal_error(serve):
    assert _pod(serve("PodTolerationRestriction", annotations={DEFAULTS: "["})).status == 500


# -- EventRateLimit ---------------------------------------------------------------------------------------------------

LIMIT = """
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {{type: {}, qps: 1, burst: 2, cacheSize: {}}}
"""


def _event(api, name, about="a", **headers):
    involved = {"kind": "Pod", "namespace": "shop", "name": about, "uid": "u", "apiVersion": "v1"}
    body = {"metadata": {"name": name}, "involvedObject": involved, "source": {"component": "c", "host": "h"}}
    return api.post(headers.pop("path", EVENTS), body, **headers)


def test_events_above_the_burst_are_refused_until_time_has_passed(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("Server", 0)))
    assert [_event(api, f"e{index}").status for index in range(3)] == [201, 201, 429]
    api.clock.advance(1.5)
    assert [_event(api, f"f{index}").status for index in range(2)] == [201, 429]


def test_the_refusal_names_limit_and_key(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("Namespace", 0)))
    for name in ("a", "b"):
        _event(api, name)
    body = _event(api, "c").body
    assert (body["reason"], body["message"]) == (
        "TooManyRequests",
        "Too many requests: limit reached on type Namespace for key shop",
    )
    api.namespace("other")
    involved = {"kind": "Pod", "namespace": "other", "name": "a"}
    other = {"metadata": {"name": "a"}, "involvedObject": involved}
    assert api.post("/api/v1/namespaces/other/events", other).status == 201


def test_each_source_and_object_has_a_bucket(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("SourceAndObject", 0)))
    assert [_event(api, f"e{index}").status for index in range(3)] == [201, 201, 429]
    body = _event(api, "e3").body
    assert body["message"] == "Too many requests: limit reached on type SourceAndObject for key chPodshopauv1"
    assert _event(api, "e4", about="b").status == 201


def test_each_user_has_a_bucket(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("User", 0)))
    api.bootstrap()
    other = api.knows("jane", "system:masters")
    assert [_event(api, f"e{index}").status for index in range(3)] == [201, 201, 429]
    assert _event(api, "f", token=other).status == 201


def test_a_bucket_that_left_the_cache_is_full_again(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("SourceAndObject", 1)))
    assert [_event(api, f"e{index}").status for index in range(3)] == [201, 201, 429]
    assert _event(api, "other", about="b").status == 201
    assert _event(api, "again").status == 201


def test_a_dry_run_takes_no_token(serve):
    api = serve("EventRateLimit", config=_configured("EventRateLimit", LIMIT.format("Server", 0)))
    for index in range(5):
        assert _event(api, f"d{index}", path=f"{EVENTS}?dryRun=All").status == 201
    assert _event(api, "e").status == 201


# -- OwnerReferencesPermissionEnforcement -----------------------------------------------------------------------------

MAPS = "/api/v1/namespaces/shop/configmaps"


def _owned(name="m", blocking=True, **owner):
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u", **owner}
    return {"metadata": {"name": name, "ownerReferences": [{**reference, "blockOwnerDeletion": blocking}]}}


@pytest.fixture
def owners(serve):
    api = serve("OwnerReferencesPermissionEnforcement")
    api.bootstrap()
    api.knows("jane")
    api.may("create update get patch: configmaps", user="jane", namespace="shop")
    return api


def test_blocking_an_owners_deletion_needs_its_finalizers(owners):
    told = refused(owners.post(MAPS, _owned(), token="jane"))
    assert told.startswith(
        'configmaps "m" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource '
        "you can't set finalizers on: "
    )
    assert told.endswith(", <nil>")
    owners.may("update: configmaps/finalizers", user="jane", namespace="shop")
    assert owners.post(MAPS, _owned(), token="jane").status == 201


def test_a_reference_that_blocks_nothing_needs_no_permission_on_create(owners):
    assert owners.post(MAPS, _owned(blocking=False), token="jane").status == 201


def test_who_may_finalize_everything_may_block_every_owner(owners):
    owners.may("update: */finalizers @*", user="jane")
    assert owners.post(MAPS, _owned(), token="jane").status == 201


def test_an_unknown_owner_cannot_be_blocked(owners):
    told = refused(owners.post(MAPS, _owned(kind="Ghost", apiVersion="x/v1"), token="jane"))
    assert told == (
        'configmaps "m" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for '
        'APIVersion x/v1 Kind Ghost: no matches for kind "Ghost" in version "x/v1"'
    )


def test_changing_owners_needs_the_permission_to_delete(owners):
    owners.post(MAPS, {"metadata": {"name": "m"}}, token="jane")
    told = refused(owners.put(f"{MAPS}/m", _owned(blocking=False), token="jane"))
    assert told.startswith('configmaps "m" is forbidden: cannot set an ownerRef on a resource you can\'t delete: ')
    assert owners.put(f"{MAPS}/m", {"metadata": {"name": "m"}, "data": {"k": "v"}}, token="jane").status == 200
    owners.may("delete: configmaps", user="jane", namespace="shop")
    assert owners.put(f"{MAPS}/m", _owned(blocking=False), token="jane").status == 200


def test_a_reference_that_blocked_before_is_not_checked_again(owners):
    owners.may("delete: configmaps", user="jane", namespace="shop")
    owners.post(MAPS, _owned())
    more = _owned()
    more["metadata"]["ownerReferences"].append({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "v"})
    assert owners.put(f"{MAPS}/m", more, token="jane").status == 200
    for reference in more["metadata"]["ownerReferences"]:
        reference["blockOwnerDeletion"] = True
    assert owners.put(f"{MAPS}/m", more, token="jane").status == 403


def test_the_status_of_pods_is_exempt(writes_with):
    from kubeloop.apiserver.admission.plugins.owner_references_permission_enforcement import (
        OwnerReferencesPermissionEnforcement,
    )
    from tests.unit.apiserver.admission.conftest import resource_named

    handles = OwnerReferencesPermissionEnforcement.handles
    plugin = object.__new__(OwnerReferencesPermissionEnforcement)
    assert not handles(plugin, "UPDATE", resource_named("pods"), "status")
    assert handles(plugin, "UPDATE", resource_named("pods"), "")
    assert not handles(plugin, "DELETE", resource_named("pods"), "")


# -- configuration of plugins that are on by default ------------------------------------------------------------------

LIMITED = """
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- {resource: configmaps, matchContains: [count/configmaps]}
- {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-cluster-critical]}]}
"""


def test_limited_resources_need_a_quota(serve):
    api = serve(config=_configured("ResourceQuota", LIMITED))
    told = refused(api.post(MAPS, {"metadata": {"name": "m"}}))
    assert told == 'configmaps "m" is forbidden: insufficient quota to consume: count/configmaps'
    assert api.post("/api/v1/namespaces/shop/secrets", {"metadata": {"name": "s"}}).status == 201


def test_limited_scopes_need_a_quota(serve):
    api = serve(config=_configured("ResourceQuota", LIMITED), disable=("Priority",))
    answer = _pod(api, priorityClassName="system-cluster-critical")
    assert (answer.status, answer.body["message"]) == (
        500,
        "insufficient quota to match these scopes: [{PriorityClass In [system-cluster-critical]}]",
    )


def test_pod_security_has_defaults_and_exemptions(serve):
    config = (
        "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
        "defaults: {enforce: baseline}\nexemptions: {namespaces: [free]}"
    )
    api = serve(config=_configured("PodSecurity", config))
    assert "violates PodSecurity" in refused(_pod(api, hostPID=True))
    api.namespace("free")
    body = {"metadata": {"name": "p"}, "spec": {**POD_SPEC, "hostPID": True}}
    assert api.post("/api/v1/namespaces/free/pods", body).status == 201

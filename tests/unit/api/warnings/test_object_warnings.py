# SPDX-License-Identifier: Apache-2.0
"""Tests of warnings about other objects."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.api.codec import from_plain
from kubeloop.api.generated import (
    admissionregistration_v1,
    batch_v1,
    core_v1,
    discovery_v1,
    networking_v1,
    node_v1,
    resource_v1,
    storage_v1,
)
from kubeloop.api.warnings import WARNINGS, warnings_for
from kubeloop.api.warnings.secrets import key_pair_error


def _warnings_of(kind, old=None, subresource="", **plain):
    plain.setdefault("metadata", {"name": "x"})
    before = None if old is None else from_plain(old, kind)
    return list(warnings_for(from_plain(plain, kind), before, subresource))


def test_every_entry_of_the_table_resolves():
    for key in WARNINGS:
        module, _, name = key.partition(".")
        if module == "instance":  # custom resources, whose classes are created with their definition
            continue
        kind = getattr(__import__(f"kubeloop.api.generated.{module}", fromlist=[name]), name)
        obj = from_plain({"metadata": {"name": "x"}}, kind)
        assert list(warnings_for(obj, None)) == []
        assert list(warnings_for(obj, obj)) == []
        assert list(warnings_for(obj, obj, "status")) == []


SERVICES = {
    "old hints": (
        {"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "auto"}}},
        "annotation service.kubernetes.io/topology-aware-hints is deprecated, "
        "please use service.kubernetes.io/topology-mode instead",
    ),
    "external addresses": (
        {"spec": {"type": "ClusterIP", "externalIPs": ["1.2.3.4"]}},
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
    ),
    "an external name that nobody uses": (
        {"spec": {"type": "ClusterIP", "externalName": "x"}},
        'spec.externalName is ignored when spec.type is not "ExternalName"',
    ),
    "affinity of a headless service": (
        {"spec": {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "sessionAffinity": "ClientIP"}},
        "spec.SessionAffinity is ignored for headless services",
    ),
    "a network with bits of a host": (
        {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8"]}},
        'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context '
        '(should be "10.0.0.0/8" or "10.0.0.1/32"?)',
    ),
    "a network with leading zeros": (
        {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["010.0.0.0/8"]}},
        'spec.loadBalancerSourceRanges[0]: non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8"',
    ),
    "a network of version 6 in long form": (
        {"spec": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["2001:db8:0::/64"]}},
        'spec.loadBalancerSourceRanges[0]: IPv6 CIDR value "2001:db8:0::/64" should be in RFC 5952 canonical format '
        '("2001:db8::/64")',
    ),
    "an old word for near": (
        {"spec": {"type": "ClusterIP", "trafficDistribution": "PreferClose"}},
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ),
}


@pytest.mark.parametrize(("plain", "text"), SERVICES.values(), ids=SERVICES.keys())
def test_services(plain, text):
    plain = {"metadata": {"name": "x"}, **plain}
    assert _warnings_of(core_v1.Service, **plain) == [text]
    assert _warnings_of(core_v1.Service, old=plain, **plain) == [text]


def test_a_fractional_claim():
    spec = {"resources": {"requests": {"storage": "500m"}}}
    text = 'spec.resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer'
    assert _warnings_of(core_v1.PersistentVolumeClaim, spec=spec) == [text]


def test_recycled_volume_with_a_removed_driver_warns():
    spec = {"persistentVolumeReclaimPolicy": "Recycle", "glusterfs": {"path": "p"}}
    said = _warnings_of(core_v1.PersistentVolume, spec=spec)
    assert said[0].startswith("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated.")
    assert said[1] == "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"


def test_ingress_class_annotation_warns():
    annotations = {"kubernetes.io/ingress.class": "nginx"}
    meta = {"name": "x", "annotations": annotations}
    (said,) = _warnings_of(networking_v1.Ingress, metadata=meta)
    assert said == (
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    )
    assert _warnings_of(networking_v1.Ingress, metadata=meta, spec={"ingressClassName": "nginx"}) == []


def test_fqdn_endpoints_and_nonstandard_addresses_warn():
    assert _warnings_of(discovery_v1.EndpointSlice, addressType="FQDN") == [
        "spec.addressType: FQDN endpoints are deprecated"
    ]
    plain = {"addressType": "IPv6", "endpoints": [{"addresses": ["::0"]}]}
    (said,) = _warnings_of(discovery_v1.EndpointSlice, **plain)
    assert said.startswith("endpoints[0].addresses[0]: IPv6 address")
    managed = {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}
    assert _warnings_of(discovery_v1.EndpointSlice, metadata=managed, **plain) == []


def test_networks_of_a_policy():
    spec = {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.1/16"]}}]}]}
    (said,) = _warnings_of(networking_v1.NetworkPolicy, spec=spec)
    assert said.startswith('spec.egress[0].to[0].ipBlock.except[0]: CIDR value "10.0.0.1/16" is ambiguous')


def test_schedule_with_a_zone_warns_on_update():
    plain = {"metadata": {"name": "x"}, "spec": {"schedule": "TZ=UTC * * * * *"}}
    assert _warnings_of(batch_v1.CronJob, **plain) == []
    (said,) = _warnings_of(batch_v1.CronJob, old=plain, **plain)
    assert said.startswith("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead")


def test_too_large_job_warns():
    spec = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    (said,) = _warnings_of(batch_v1.Job, spec=spec)
    assert said.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")


def test_quota_with_requests_above_limits_warns():
    hard = {"memory": "2Gi", "limits.memory": "1Gi", "requests.cpu": "1", "limits.cpu": "2"}
    text = "ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)"
    assert _warnings_of(core_v1.ResourceQuota, spec={"hard": hard}) == [text]


def test_service_account_annotation_warns_once():
    meta = {"name": "x", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    (said,) = _warnings_of(core_v1.ServiceAccount, metadata=meta)
    assert said.startswith("metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+;")
    assert _warnings_of(core_v1.ServiceAccount, old={"metadata": meta}, metadata=meta) == []


def test_deprecated_node_labels_warn():
    old = "failure-domain.beta.kubernetes.io/zone"
    text = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    topologies = [{"matchLabelExpressions": [{"key": old, "values": ["a"]}]}]
    assert _warnings_of(storage_v1.StorageClass, allowedTopologies=topologies) == [
        f"allowedTopologies[0].matchLabelExpressions[0].key: {text}"
    ]
    assert _warnings_of(storage_v1.CSIStorageCapacity, nodeTopology={"matchLabels": {old: "a"}}) == [
        f"nodeTopology.matchLabels.{old}: {text}"
    ]
    assert _warnings_of(node_v1.RuntimeClass, scheduling={"nodeSelector": {old: "a"}}) == [
        f"scheduling.nodeSelector: {text}"
    ]


def test_driver_with_tokens_in_attributes_warns():
    spec = {"tokenRequests": [{"audience": "a"}]}
    assert len(_warnings_of(storage_v1.CSIDriver, spec=spec)) == 1
    assert _warnings_of(storage_v1.CSIDriver, old={"spec": spec}, spec=spec) == []
    assert _warnings_of(storage_v1.CSIDriver, spec={**spec, "serviceAccountTokenInSecrets": False}) == []


def test_uppercase_device_driver_warns():
    assert _warnings_of(resource_v1.ResourceSlice, spec={"driver": "Gpu"}) == [
        'spec.driver: driver names should be lowercase; "Gpu" contains uppercase characters'
    ]


def test_webhook_for_virtual_resources_warns():
    rule = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews", "pods"]}
    any_group = {"apiGroups": ["*"], "resources": ["tokenreviews"]}
    webhooks = [{"name": "w", "rules": [any_group, rule]}]
    assert _warnings_of(admissionregistration_v1.ValidatingWebhookConfiguration, webhooks=webhooks) == [
        "webhooks[0].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; "
        "this rule will have no effect"
    ]


# -- pairs of certificates and keys ------------------------------------------------------------------------------------


def _pair():
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, day, day + datetime.timedelta(days=1))
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate, private


def test_key_pair_matches_or_reports_an_error():
    certificate, key = _pair()
    _, other_key = _pair()
    assert key_pair_error(certificate, key) == ""
    assert key_pair_error(certificate, other_key) == "tls: private key does not match public key"
    assert key_pair_error(b"", key) == "tls: failed to find any PEM data in certificate input"
    assert key_pair_error(certificate, b"") == "tls: failed to find any PEM data in key input"
    assert key_pair_error(key, certificate).endswith("PEM inputs may have been switched")
    assert key_pair_error(certificate, certificate) == (
        "tls: found a certificate rather than a key in the PEM for the private key"
    )


def test_only_tls_secrets_are_checked():
    assert _warnings_of(core_v1.Secret, type="Opaque", data={"tls.crt": ""}) == []
    assert _warnings_of(core_v1.Secret, type="kubernetes.io/tls") == [
        "tls: failed to find any PEM data in certificate input"
    ]

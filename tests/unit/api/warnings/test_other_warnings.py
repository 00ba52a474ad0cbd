"""What clients are told about other objects that are accepted all the same."""

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


def _said(kind, old=None, subresource="", **plain):
    plain.setdefault("metadata", {"name": "x"})
    before = None if old is None else from_plain(old, kind)
    return list(warnings_for(from_plain(plain, kind), before, subresource))


def test_every_entry_of_the_table_can_be_resolved():
    for key in WARNINGS:
        module, _, name = key.partition(".")
        if module == "instance":  # custom resources, whose classes are made as they are defined
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
    assert _said(core_v1.Service, **plain) == [text]
    assert _said(core_v1.Service, old=plain, **plain) == [text]


def test_a_fractional_claim():
    spec = {"resources": {"requests": {"storage": "500m"}}}
    text = 'spec.resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer'
    assert _said(core_v1.PersistentVolumeClaim, spec=spec) == [text]


def test_a_volume_that_is_recycled_and_of_a_driver_that_is_gone():
    spec = {"persistentVolumeReclaimPolicy": "Recycle", "glusterfs": {"path": "p"}}
    said = _said(core_v1.PersistentVolume, spec=spec)
    assert said[0].startswith("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated.")
    assert said[1] == "spec.glusterfs: deprecated in v1.25, non-functional in v1.26+"


def test_an_ingress_names_its_class_in_a_field_today():
    annotations = {"kubernetes.io/ingress.class": "nginx"}
    meta = {"name": "x", "annotations": annotations}
    (said,) = _said(networking_v1.Ingress, metadata=meta)
    assert said == (
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
    )
    assert _said(networking_v1.Ingress, metadata=meta, spec={"ingressClassName": "nginx"}) == []


def test_endpoints_by_domain_name_and_odd_addresses():
    assert _said(discovery_v1.EndpointSlice, addressType="FQDN") == ["spec.addressType: FQDN endpoints are deprecated"]
    plain = {"addressType": "IPv6", "endpoints": [{"addresses": ["::0"]}]}
    (said,) = _said(discovery_v1.EndpointSlice, **plain)
    assert said.startswith("endpoints[0].addresses[0]: IPv6 address")
    managed = {"labels": {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}
    assert _said(discovery_v1.EndpointSlice, metadata=managed, **plain) == []


def test_networks_of_a_policy():
    spec = {"egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.0.0.1/16"]}}]}]}
    (said,) = _said(networking_v1.NetworkPolicy, spec=spec)
    assert said.startswith('spec.egress[0].to[0].ipBlock.except[0]: CIDR value "10.0.0.1/16" is ambiguous')


def test_a_schedule_with_a_zone_is_told_of_when_it_is_updated():
    plain = {"metadata": {"name": "x"}, "spec": {"schedule": "TZ=UTC * * * * *"}}
    assert _said(batch_v1.CronJob, **plain) == []
    (said,) = _said(batch_v1.CronJob, old=plain, **plain)
    assert said.startswith("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead")


def test_a_job_that_is_too_large_to_be_tracked():
    spec = {"completionMode": "Indexed", "completions": 100_001, "parallelism": 10_001}
    (said,) = _said(batch_v1.Job, spec=spec)
    assert said.startswith("spec: In Indexed Jobs with a number of completions higher than 10^5")


def test_a_quota_that_asks_for_more_than_its_limit():
    hard = {"memory": "2Gi", "limits.memory": "1Gi", "requests.cpu": "1", "limits.cpu": "2"}
    text = "ResourceQuota memory (2Gi) should be less than limits.memory (1Gi)"
    assert _said(core_v1.ResourceQuota, spec={"hard": hard}) == [text]


def test_an_annotation_of_accounts_is_told_of_once():
    meta = {"name": "x", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}
    (said,) = _said(core_v1.ServiceAccount, metadata=meta)
    assert said.startswith("metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+;")
    assert _said(core_v1.ServiceAccount, old={"metadata": meta}, metadata=meta) == []


def test_labels_of_nodes_by_their_old_names():
    old = "failure-domain.beta.kubernetes.io/zone"
    text = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    topologies = [{"matchLabelExpressions": [{"key": old, "values": ["a"]}]}]
    assert _said(storage_v1.StorageClass, allowedTopologies=topologies) == [
        f"allowedTopologies[0].matchLabelExpressions[0].key: {text}"
    ]
    assert _said(storage_v1.CSIStorageCapacity, nodeTopology={"matchLabels": {old: "a"}}) == [
        f"nodeTopology.matchLabels.{old}: {text}"
    ]
    assert _said(node_v1.RuntimeClass, scheduling={"nodeSelector": {old: "a"}}) == [f"scheduling.nodeSelector: {text}"]


def test_a_driver_whose_tokens_get_into_attributes():
    spec = {"tokenRequests": [{"audience": "a"}]}
    assert len(_said(storage_v1.CSIDriver, spec=spec)) == 1
    assert _said(storage_v1.CSIDriver, old={"spec": spec}, spec=spec) == []
    assert _said(storage_v1.CSIDriver, spec={**spec, "serviceAccountTokenInSecrets": False}) == []


def test_a_driver_of_devices_in_capitals():
    assert _said(resource_v1.ResourceSlice, spec={"driver": "Gpu"}) == [
        'spec.driver: driver names should be lowercase; "Gpu" contains uppercase characters'
    ]


def test_a_webhook_for_what_it_is_never_asked_about():
    rule = {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews", "pods"]}
    any_group = {"apiGroups": ["*"], "resources": ["tokenreviews"]}
    webhooks = [{"name": "w", "rules": [any_group, rule]}]
    assert _said(admissionregistration_v1.ValidatingWebhookConfiguration, webhooks=webhooks) == [
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


def test_a_pair_fits_or_is_told_why_not():
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


def test_only_secrets_of_tls_are_looked_at():
    assert _said(core_v1.Secret, type="Opaque", data={"tls.crt": ""}) == []
    assert _said(core_v1.Secret, type="kubernetes.io/tls") == ["tls: failed to find any PEM data in certificate input"]

# SPDX-License-Identifier: Apache-2.0
"""Rules of projected files: secrets, config maps, the downward API, tokens, certificates."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.api.validation.cases import ALL_FEATURES, Case, creates
from tests.unit.api.validation.messages import DNS_LABEL, DNS_SUBDOMAIN, QUALIFIED_NAME

POD = {"spec": {"containers": [{"name": "c", "image": "i"}], "serviceAccountName": "a", "volumes": [{"name": "v"}]}}
FIELD = {"fieldPath": "metadata.name"}
CERTIFICATE = {"signerName": "example.com/s", "keyType": "RSA3072", "credentialBundlePath": "b"}
BUNDLE = {"name": "b", "path": "b"}
TOKEN = {"path": "t", "expirationSeconds": 3600}


def volume(**fields: Any) -> dict[str, Any]:
    return {"spec.volumes": [{"name": "v", **fields}]}


def secret(**item: Any) -> dict[str, Any]:
    return volume(secret={"secretName": "s", "items": [{"key": "k", "path": "p", **item}]})


def downward(**item: Any) -> dict[str, Any]:
    return volume(downwardAPI={"items": [{"path": "p", **item}]})


def projected(*sources: dict[str, Any]) -> dict[str, Any]:
    return volume(projected={"sources": list(sources)})


def certificate(**fields: Any) -> dict[str, Any]:
    return projected({"podCertificate": {**CERTIFICATE, **fields}})


def bundle(**fields: Any) -> dict[str, Any]:
    return projected({"clusterTrustBundle": {"path": "b", **fields}})


CASES = [
    *creates("pods", POD, [
        (volume(secret={"secretName": "s", "defaultMode": 0o1000}),
            ["spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 "
             "(octal), both inclusive"]),
        (volume(configMap={"name": "m", "items": [{"key": "", "path": "p"}]}),
            ["spec.volumes[0].configMap.items[0].key: Required value"]),
        (secret(path=""), ["spec.volumes[0].secret.items[0].path: Required value"]),
        (secret(path="/p"), ['spec.volumes[0].secret.items[0].path: Invalid value: "/p": must be a relative path']),
        (secret(path="../p"),
            ["spec.volumes[0].secret.items[0].path: Invalid value: \"../p\": must not contain '..'"]),
        (secret(path="..p"),
            ["spec.volumes[0].secret.items[0].path: Invalid value: \"..p\": must not start with '..'"]),
        (secret(mode=-1),
            ["spec.volumes[0].secret.items[0].mode: Invalid value: -1: must be a number between 0 and 0777 "
             "(octal), both inclusive"]),
        (volume(downwardAPI={"defaultMode": -1}),
            ["spec.volumes[0].downwardAPI.defaultMode: Invalid value: -1: must be a number between 0 and 0777 "
             "(octal), both inclusive"]),
        (downward(),
            ["spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required"]),
        (downward(path="", fieldRef=FIELD), ["spec.volumes[0].downwardAPI.path: Required value"]),
        (downward(path="/p", fieldRef=FIELD),
            ['spec.volumes[0].downwardAPI.path: Invalid value: "/p": must be a relative path']),
        (downward(fieldRef=FIELD, mode=0o1000),
            ["spec.volumes[0].downwardAPI.mode: Invalid value: 512: must be a number between 0 and 0777 "
             "(octal), both inclusive"]),
        (downward(fieldRef=FIELD, resourceFieldRef={"containerName": "c", "resource": "limits.cpu"}),
            ['spec.volumes[0].downwardAPI: Invalid value: "resource": fieldRef and resourceFieldRef can not be '
             "specified simultaneously"]),
        (downward(fieldRef={"fieldPath": "status.podIP"}),
            ['spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported '
             'values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", '
             '"metadata.uid"']),
        (downward(fieldRef={"fieldPath": "metadata.labels['a b']"}),
            ['spec.volumes[0].downwardAPI.fieldRef: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (downward(fieldRef={"fieldPath": "metadata.name['a']"}),
            ["spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: \"metadata.name['a']\": error "
             "converting fieldPath: field label does not support subscript: metadata.name['a']"]),
        (downward(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"}),
            ['spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "metadata.name": error converting '
             "fieldPath: unsupported pod version: v2"]),
        (downward(fieldRef={"fieldPath": "spec.x"}),
            ['spec.volumes[0].downwardAPI.fieldRef.fieldPath: Invalid value: "spec.x": error converting '
             "fieldPath: field label not supported: spec.x"]),
        (downward(resourceFieldRef={"resource": "limits.cpu"}),
            ["spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value"]),
        (downward(resourceFieldRef={"containerName": "c", "resource": ""}),
            ["spec.volumes[0].downwardAPI.resourceFieldRef.resource: Required value"]),
        (downward(resourceFieldRef={"containerName": "c", "resource": "limits.x"}),
            ['spec.volumes[0].downwardAPI.resourceFieldRef.resource: Unsupported value: "limits.x": supported '
             'values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", '
             '"requests.ephemeral-storage", "requests.memory"']),
        (downward(resourceFieldRef={"containerName": "c", "resource": "limits.cpu", "divisor": "2"}),
            ['spec.volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.cpu": only '
             "divisor's values 1m and 1 are supported with the cpu resource"]),
        (downward(resourceFieldRef={"containerName": "c", "resource": "limits.memory", "divisor": "2"}),
            ['spec.volumes[0].downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.memory": only '
             "divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the "
             "memory resource"]),
        (volume(projected={"defaultMode": -1, "sources": []}),
            ["spec.volumes[0].projected.defaultMode: Invalid value: -1: must be a number between 0 and 0777 "
             "(octal), both inclusive"]),
        (projected({"secret": {"name": "s"}, "configMap": {"name": "m"}}),
            ["spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source"]),
        (projected({"secret": {"name": ""}}), ["spec.volumes[0].projected.sources[0].secret.name: Required value"]),
        (projected({"secret": {"name": "s", "items": [{"key": "", "path": "p"}]}}),
            ["spec.volumes[0].projected.sources[0].secret.items[0].key: Required value"]),
        (projected({"secret": {"name": "s", "items": [{"key": "k", "path": "p"}, {"key": "l", "path": "p"}]}}),
            ['spec.volumes[0].projected: Invalid value: "s": conflicting duplicate paths']),
        (projected({"downwardAPI": {"items": [{"path": "p"}]}}),
            ["spec.volumes[0].projected.sources[0].downwardAPI: Required value: one of fieldRef and "
             "resourceFieldRef is required"]),
        (projected({"downwardAPI": {"items": [{"path": "p", "fieldRef": FIELD}] * 2}}),
            ['spec.volumes[0].projected: Invalid value: "p": conflicting duplicate paths']),
        (projected({"serviceAccountToken": {**TOKEN, "expirationSeconds": 599}}),
            ["spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: "
             "may not specify a duration less than 10 minutes"]),
        (projected({"serviceAccountToken": {**TOKEN, "expirationSeconds": 2**32 + 1}}),
            ["spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: "
             "4294967297: may not specify a duration larger than 2^32 seconds"]),
        (projected({"serviceAccountToken": {**TOKEN, "path": ""}}),
            ["spec.volumes[0].projected.path: Required value"]),
        (projected({"serviceAccountToken": {**TOKEN, "path": "/t"}}),
            ['spec.volumes[0].projected.path: Invalid value: "/t": must be a relative path']),
    ]),
    *creates("pods", POD, [
        (bundle(),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle: Required value: either name or "
             "signerName must be specified"]),
        (bundle(name="b", signerName="example.com/s"),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle: Invalid value: "
             '{"Name":"b","SignerName":"example.com/s","LabelSelector":null,"Optional":null,"Path":"b","Us'
             'er":null}: only one of name and signerName may be used']),
        (bundle(name=""),
            [("spec.volumes[0].projected.sources[0].clusterTrustBundle.name: Required value: must be a valid "
             "object name"),
             ('spec.volumes[0].projected.sources[0].clusterTrustBundle.name: Invalid value: "": '
             "not a valid clustertrustbundlename: " + DNS_SUBDOMAIN)]),
        (bundle(name="B_"),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle.name: Invalid value: "
             '"B_": not a valid clustertrustbundlename: ' + DNS_SUBDOMAIN]),
        (bundle(name="b", labelSelector={}),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle.labelSelector: Invalid value: {}: "
             "labelSelector must be unset if name is specified"]),
        (bundle(signerName=""),
            [("spec.volumes[0].projected.sources[0].clusterTrustBundle.signerName: Required value: must be a "
             "valid signer name"),
             "spec.volumes[0].projected.sources[0].clusterTrustBundle.signerName: Required value"]),
        (bundle(signerName="s"),
            ['spec.volumes[0].projected.sources[0].clusterTrustBundle.signerName: Invalid value: "s": must be a '
             "fully qualified domain and path of the form 'example.com/signer-name'"]),
        (bundle(signerName="example.com/s", labelSelector={"matchLabels": {"a b": "c"}}),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle.labelSelector.match"
             'Labels: Invalid value: "a b": ' + QUALIFIED_NAME]),
        (bundle(name="b", path=""), ["spec.volumes[0].projected.sources[0].clusterTrustBundle.path: Required value"]),
        (bundle(name="b", path="/b"),
            ['spec.volumes[0].projected.sources[0].clusterTrustBundle.path: Invalid value: "/b": must be a '
             "relative path"]),
        (bundle(name="b", user=-1),
            ["spec.volumes[0].projected.sources[0].clusterTrustBundle.user: Invalid value: -1: must be between "
             "0 and 2147483647, inclusive"]),
        (projected({"clusterTrustBundle": BUNDLE}, {"clusterTrustBundle": BUNDLE}),
            ['spec.volumes[0].projected: Invalid value: "b": conflicting duplicate paths']),
        (certificate(signerName=""),
            ["spec.volumes[0].projected.sources[0].podCertificate.signerName: Required value"]),
        (certificate(signerName="a.b/c/d"),
            ['spec.volumes[0].projected.sources[0].podCertificate.signerName: Invalid value: "a.b/c/d": must be '
             "a fully qualified domain and path of the form 'example.com/signer-name'"]),
        (certificate(signerName="example/s"),
            ['spec.volumes[0].projected.sources[0].podCertificate.signerName: Invalid value: "example": should '
             "be a domain with at least two segments separated by dots"]),
        (certificate(signerName="E_.com/s"),
            ["spec.volumes[0].projected.sources[0].podCertificate.signerName: Invalid value: "
             '"E_.com": validating label "E_": ' + DNS_LABEL]),
        (certificate(signerName="example.com/S_"),
            ["spec.volumes[0].projected.sources[0].podCertificate.signerName: Invalid value: "
             '"S_": validating label "S_": ' + DNS_SUBDOMAIN]),
        (certificate(signerName=".".join(["d" * 60] * 5) + "/s"),
            ["spec.volumes[0].projected.sources[0].podCertificate.signerName: Too long: may not be more than "
             "253 bytes"]),
        (certificate(signerName="example.com/" + ".".join(["d" * 60] * 10)),
            ["spec.volumes[0].projected.sources[0].podCertificate.signerName: Too long: may not be more than "
             "571 bytes"]),
        (certificate(userAnnotations={"a": "b"}),
            ['spec.volumes[0].projected.sources[0].podCertificate.userAnnotations: Invalid value: "a": must be '
             'a domain-prefixed key (such as "acme.io/foo")']),
        (certificate(userAnnotations={"example.com/a": "b" * 262144}),
            ["spec.volumes[0].projected.sources[0].podCertificate.userAnnotations: Too long: may not be more "
             "than 262144 bytes"]),
        (certificate(user=-1),
            ["spec.volumes[0].projected.sources[0].podCertificate.user: Invalid value: -1: must be between 0 "
             "and 2147483647, inclusive"]),
        (certificate(keyType="K"),
            ['spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: "K": supported '
             'values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"']),
        (certificate(maxExpirationSeconds=3599),
            ["spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 3599: if "
             "provided, maxExpirationSeconds must be >= 3600"]),
        (certificate(maxExpirationSeconds=91 * 86400 + 1),
            ["spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 7862401: "
             "if provided, maxExpirationSeconds must be <= 7862400"]),
        (certificate(signerName="kubernetes.io/s", maxExpirationSeconds=86401),
            ["spec.volumes[0].projected.sources[0].podCertificate.maxExpirationSeconds: Invalid value: 86401: "
             "if provided, maxExpirationSeconds must be <= 86400"]),
        (certificate(credentialBundlePath=""),
            ["spec.volumes[0].projected.sources[0].podCertificate: Required value: specify at least one of "
             "credentialBundlePath, keyPath, and certificateChainPath"]),
        (certificate(credentialBundlePath="/b"),
            ['spec.volumes[0].projected.sources[0].podCertificate.credentialBundlePath: Invalid value: "/b": '
             "must be a relative path"]),
        (certificate(keyPath="b"), ['spec.volumes[0].projected: Invalid value: "b": conflicting duplicate paths']),
        (volume(secret={"secretName": "s", "defaultUser": -1}),
            ["spec.volumes[0].secret.defaultUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (secret(user=-1),
            ["spec.volumes[0].secret.items[0].user: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (volume(downwardAPI={"defaultUser": -1}),
            ["spec.volumes[0].downwardAPI.defaultUser: Invalid value: -1: must be between 0 and 2147483647, "
             "inclusive"]),
        (downward(fieldRef=FIELD, user=-1),
            ["spec.volumes[0].downwardAPI.user: Invalid value: -1: must be between 0 and 2147483647, inclusive"]),
        (volume(projected={"defaultUser": -1, "sources": []}),
            ["spec.volumes[0].projected.defaultUser: Invalid value: -1: must be between 0 and 2147483647, "
             "inclusive"]),
        (projected({"serviceAccountToken": {**TOKEN, "user": -1}}),
            ["spec.volumes[0].projected.sources[0].serviceAccountToken.user: Invalid value: -1: must be between "
             "0 and 2147483647, inclusive"]),
    ], ALL_FEATURES),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_invalid_projections_are_reported(case: Case) -> None:
    assert case.found() == case.errors

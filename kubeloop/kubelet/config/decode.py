# SPDX-License-Identifier: Apache-2.0
"""Decodes KubeletConfiguration documents: merges drop-ins, sets defaults, applies the values of flags. Pure.

file ◀─ merge patch of each drop-in ─▶ zero values removed ─▶ values of flags ─▶ struct, whose defaults fill the rest
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api.features.gates import Features, InvalidFeatureGate, parse_feature_gates
from kubeloop.kubelet.config.kubelet_configuration import (
    API_VERSION,
    DEFAULT_EVICTION_HARD,
    KIND,
    KubeletConfiguration,
)
from kubeloop.runtime.component_config import ComponentConfigError, FlagValues, check_type, convert, with_values

# Fields in which zero is a value: pointers in upstream's type. In others, zero means the default.
_POINTER_NAMES = """
registryPullQPS eventRecordQPS healthzPort oomScoreAdj imageGCHighThresholdPercent imageGCLowThresholdPercent
podPidsLimit resolvConf cpuCFSQuotaPeriod nodeStatusMaxImages kubeAPIQPS maxParallelImagePulls iptablesMasqueradeBit
iptablesDropBit containerLogMaxFiles containerLogMaxWorkers containerLogMonitorInterval maxContainerRestartPeriod
idsPerPod endpoint samplingRatePerMillion memoryThrottlingFactor
"""
_POINTERS = frozenset(_POINTER_NAMES.split())
# Fields that are structs of upstream's type, at any level.
_PARTS = frozenset(
    (
        *("authentication", "authorization", "x509", "webhook", "anonymous"),
        *("crashLoopBackOff", "memorySwap", "logging", "userNamespaces"),
    )
)
_ZERO_DURATIONS = ("0s", "0m", "0h", "0ms")


def check_document(document: Any) -> dict[str, Any]:
    """Return a document that is a KubeletConfiguration without unknown fields. Raises `ComponentConfigError`."""
    found = check_type(document, API_VERSION, KIND)
    convert(without_zero_values(found), KubeletConfiguration)
    return dict(found)


def merge_patch(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a JSON merge patch applied: maps are merged, lists replaced, nulls remove."""
    merged = dict(base)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, Mapping):
            before = merged.get(name)
            merged[name] = merge_patch(before if isinstance(before, Mapping) else {}, value)
        else:
            merged[name] = value
    return merged


def decode_configuration(document: Mapping[str, Any], flags: FlagValues) -> KubeletConfiguration:
    """Return the effective configuration of a merged document and the values of flags, by path.

    Raises `ComponentConfigError`.
    """
    plain = with_values(with_derived_defaults(without_zero_values(document)), flags)
    gates: Mapping[str, bool] = {**document.get("featureGates", {}), **plain.get("featureGates", {})}
    if gates:
        plain["featureGates"] = gates
    return convert(_with_gated_defaults(plain, features_of(gates)), KubeletConfiguration)


def features_of(gates: Mapping[str, bool]) -> Features:
    """Return the enabled features. Raises `ComponentConfigError`."""
    try:
        return parse_feature_gates(f"{name}={str(value).lower()}" for name, value in gates.items())
    except InvalidFeatureGate as error:
        raise ComponentConfigError(str(error)) from None


def without_zero_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without nulls, and without zero values of fields in which zero means the default."""
    kept: dict[str, Any] = {}
    for name, value in document.items():
        if value is None or (name not in _POINTERS and _is_zero(value)):
            continue
        kept[name] = without_zero_values(value) if name in _PARTS and isinstance(value, Mapping) else value
    return kept


def with_derived_defaults(plain: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the defaults that depend on other fields."""
    derived: dict[str, Any] = {}
    if "nodeStatusUpdateFrequency" in plain:
        derived["nodeStatusReportFrequency"] = plain["nodeStatusUpdateFrequency"]
    if isinstance(pulls := plain.get("maxParallelImagePulls"), int):
        derived["serializeImagePulls"] = pulls < 2
    merged = {**derived, **plain}
    if isinstance(limit := plain.get("podPidsLimit"), int) and limit < 0:
        merged["podPidsLimit"] = -1
    if plain.get("mergeDefaultEvictionSettings") is True and isinstance(plain.get("evictionHard"), Mapping):
        merged["evictionHard"] = {**DEFAULT_EVICTION_HARD, **plain["evictionHard"]}
    return merged


def _with_gated_defaults(plain: dict[str, Any], features: Features) -> dict[str, Any]:
    """Return a document in which fields of features that are off have no default."""
    found = dict(plain)
    if not features.is_enabled("KubeletCrashLoopBackOffMax"):
        found["crashLoopBackOff"] = {"maxContainerRestartPeriod": None, **(plain.get("crashLoopBackOff") or {})}
    if not features.is_enabled("KubeletEnsureSecretPulledImages"):
        found.setdefault("imagePullCredentialsVerificationPolicy", "")
    return found


def _is_zero(value: Any) -> bool:
    """Return True for an empty string, the number 0 and a duration of 0; False is a value."""
    if isinstance(value, bool | Mapping | list):
        return False
    return value in ("", 0) or value in _ZERO_DURATIONS

# SPDX-License-Identifier: Apache-2.0
"""Decodes KubeProxyConfiguration documents: unknown fields are refused, zero values replaced by defaults. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.proxy.config.configuration import (
    API_VERSION,
    HEALTHZ_PORT,
    KIND,
    METRICS_PORT,
    KubeProxyConfiguration,
)
from kubeloop.proxy.ip_family import join_host_port, parse_ip
from kubeloop.runtime.component_config import FlagValues, check_type, convert, with_values

# Fields in which zero is a value, since upstream's type has pointers there.
_POINTERS: Final = frozenset(
    ("masqueradeBit", "localhostNodePorts", "maxPerCore", "min", "tcpEstablishedTimeout", "tcpCloseWaitTimeout")
)
_ZERO_DURATIONS: Final = ("0", "0s", "0m", "0h", "0ms")


def decode_proxy_configuration(document: Any) -> KubeProxyConfiguration:
    """Return the configuration of a document. Raises `ComponentConfigError`."""
    return configuration_of(check_type(document, API_VERSION, KIND))


def configuration_of(document: Mapping[str, Any], flags: FlagValues | None = None) -> KubeProxyConfiguration:
    """Return the configuration of fields and of the values of flags. Raises `ComponentConfigError`."""
    plain = with_values(_without_zero_values(document), flags or {})
    return convert(_with_addresses(plain), KubeProxyConfiguration)


def append_port_if_needed(address: str, port: int) -> str:
    """Return an address with a port; text that is no plain address is left to the validation."""
    return join_host_port(address, port) if parse_ip(address) is not None else address


def _with_addresses(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with the default addresses of the ports, which depend on the family of the bind address."""
    is_ipv6 = ":" in str(plain.get("bindAddress", ""))
    defaults = {
        "healthzBindAddress": ("::" if is_ipv6 else "0.0.0.0", HEALTHZ_PORT),
        "metricsBindAddress": ("::1" if is_ipv6 else "127.0.0.1", METRICS_PORT),
    }
    found = dict(plain)
    for field, (address, port) in defaults.items():
        value = plain.get(field, address)
        found[field] = append_port_if_needed(value, port) if isinstance(value, str) else value
    return found


def _without_zero_values(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document without nulls and zero values, which mean the default, except in fields with pointers."""
    kept: dict[str, Any] = {}
    for name, value in document.items():
        if value is None or (name not in _POINTERS and _is_zero(value)):
            continue
        is_part = isinstance(value, Mapping) and name != "featureGates"
        kept[name] = _without_zero_values(value) if is_part else value
    return kept


def _is_zero(value: Any) -> bool:
    if isinstance(value, bool | Mapping):
        return False
    return value in ("", 0, []) or value in _ZERO_DURATIONS

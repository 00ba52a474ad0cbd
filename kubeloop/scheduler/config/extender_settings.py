# SPDX-License-Identifier: Apache-2.0
"""Extender settings of KubeSchedulerConfiguration, and their validation with upstream's messages. Pure."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from kubeloop.api.generated.core_v1 import Container, Pod
from kubeloop.api.meta.name_rules import check_qualified_name
from kubeloop.api.quota.resource_names import is_extended_resource
from kubeloop.api.scalars.duration import DurationError, parse_duration
from kubeloop.client.config.server_config import Pem, ServerConfig
from kubeloop.client.errors import ConfigError

DEFAULT_SECONDS = 5.0


class ManagedResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Resource that an extender manages; optionally ignored by the scheduler itself."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """TLS settings for an extender: trusted CA and client certificate; base64 data takes precedence over files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = msgspec.field(name="caFile", default="")
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = msgspec.field(name="caData", default="")


class ExtenderSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings of one extender; a verb that is empty is not called."""

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: str = ""
    node_cache_capable: bool = False  # it is sent only node names
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False  # scheduling continues if it fails

    @property
    def ignored_resources(self) -> list[str]:
        """Resources ignored by the scheduler itself."""
        return [one.name for one in self.managed_resources if one.ignored_by_scheduler]

    @property
    def managed_resource_names(self) -> frozenset[str]:
        """Names of the managed resources."""
        return frozenset(one.name for one in self.managed_resources)


def validate_extenders(extenders: Sequence[ExtenderSettings]) -> list[str]:
    """Return validation errors of the settings, with upstream's messages."""
    found: list[str] = []
    seen: set[str] = set()
    for index, one in enumerate(extenders):
        try:
            client_config_of(one)
            parse_duration(one.http_timeout or "0s")
        except (ConfigError, DurationError, ValueError) as error:
            found.append(f"extenders[{index}]: {error}")
        where = f"extenders[{index}]"
        if one.prioritize_verb and one.weight <= 0:
            found.append(f"{where}.weight: Invalid value: {one.weight}: must have a positive weight applied to it")
        for number, resource in enumerate(one.managed_resources):
            path = f'{where}.managedResources[{number}].name: Invalid value: "{resource.name}"'
            found += [f"{path}: {why}" for why in _problems_of_name(resource.name)]
            if resource.name in seen:
                found.append(f"{path}: duplicate extender managed resource name")
            seen.add(resource.name)
    binders = sum(bool(one.bind_verb) for one in extenders)
    if binders > 1:
        told = f'"found {binders} extenders implementing bind"'
        found.append(f"extenders: Invalid value: {told}: only one extender can implement bind")
    return found


def _problems_of_name(name: str) -> list[str]:
    problems = check_qualified_name(name)
    if problems:
        return problems
    return [] if is_extended_resource(name) else ["is an invalid extended resource name"]


def is_interested(extender: ExtenderSettings, pod: Pod) -> bool:
    """Return True if the extender manages a resource of the pod, or manages no specific resources."""
    resources = extender.managed_resource_names
    if not resources:
        return True
    containers = (*(pod.spec.containers or ()), *pod.spec.init_containers)
    return any(not resources.isdisjoint(_named(one)) for one in containers)


def _named(container: Container) -> set[str]:
    return {*container.resources.requests, *container.resources.limits}


def client_config_of(extender: ExtenderSettings) -> ServerConfig:
    """Return the client configuration for an extender; HTTPS without a CA is not verified, as upstream."""
    tls = extender.tls_config or ExtenderTLSConfig()
    authority = Pem(_decoded(tls.ca_data), tls.ca_file)
    return ServerConfig(
        extender.url_prefix,
        authority=authority,
        server_name=tls.server_name,
        insecure=tls.insecure or (extender.enable_https and not authority),
        certificate=Pem(_decoded(tls.cert_data), tls.cert_file),
        key=Pem(_decoded(tls.key_data), tls.key_file),
    )


def _decoded(text: str) -> bytes:
    return base64.b64decode(text) if text else b""

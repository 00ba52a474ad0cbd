# SPDX-License-Identifier: Apache-2.0
"""Environment variables of a container, as far as the pod determines them. Pure.

Values from ConfigMaps and Secrets are looked up by the caller and passed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from kubeloop.api.generated.core_v1 import Container, EnvVar, Pod, ResourceFieldSelector
from kubeloop.api.scalars.quantity import parse_quantity
from kubeloop.kubelet.runtime import EnvSourceValues

_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
_ENTRY = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
HOSTNAME = "HOSTNAME"
NO_RESOURCES: Mapping[str, str] = MappingProxyType({})
_LIMITED = ("cpu", "memory", "ephemeral-storage")
_FIELDS: dict[str, Callable[[Pod], str]] = {
    "metadata.name": lambda pod: pod.metadata.name,
    "metadata.namespace": lambda pod: pod.metadata.namespace,
    "metadata.uid": lambda pod: pod.metadata.uid,
    "spec.nodeName": lambda pod: pod.spec.node_name,
    "spec.serviceAccountName": lambda pod: pod.spec.service_account_name,
    "status.hostIP": lambda pod: pod.status.host_ip,
    "status.hostIPs": lambda pod: ",".join(one.ip for one in pod.status.host_ips),
    "status.podIP": lambda pod: pod.status.pod_ip,
    "status.podIPs": lambda pod: ",".join(one.ip for one in pod.status.pod_ips),
}


def make_environment(
    pod: Pod,
    container: Container,
    found: EnvSourceValues | None = None,
    allocatable: Mapping[str, str] = NO_RESOURCES,
    services: Mapping[str, str] = NO_RESOURCES,
) -> dict[str, str]:
    """Return the variables in order, with references to earlier ones and to those of services expanded.

    `allocatable` of the node is used for resource limits that are not set. Variables of services are added unless the
    container sets them.
    """
    values: dict[str, str] = {HOSTNAME: pod.spec.hostname or pod.metadata.name}
    if found is not None:
        values.update(found.env_from_values)
    for variable in container.env:
        source = variable.value_from
        if source is not None and source.resource_field_ref is not None:
            value: str | None = resolve_resource_field_ref(pod, container, source.resource_field_ref, allocatable)
        else:
            value = _value(pod, variable, found.env_values if found is not None else {})
        if value is not None:
            values[variable.name] = expand(value, {**services, **values} if services else values)
    return {**values, **{name: value for name, value in services.items() if name not in values}}


def without_default_hostname(
    values: Mapping[str, str], container: Container, found: EnvSourceValues | None
) -> dict[str, str]:
    """Return variables without a HOSTNAME that the container does not set: a real runtime sets the kernel's name."""
    is_set = any(one.name == HOSTNAME for one in container.env) or (
        found is not None and HOSTNAME in found.env_from_values
    )
    return {name: value for name, value in values.items() if is_set or name != HOSTNAME}


def _value(pod: Pod, variable: EnvVar, looked_up: Mapping[str, str]) -> str | None:
    source = variable.value_from
    if source is None:
        return variable.value
    if source.field_ref is not None:
        return resolve_field_ref(pod, source.field_ref.field_path)
    return looked_up.get(variable.name)


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value and `$$` by a dollar sign; unknown references stay."""

    def put(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return values.get(match[1], match[0])

    return _REFERENCE.sub(put, text)


def sub_path_error(pod: Pod, container: Container, found: EnvSourceValues | None) -> str:
    """Return why the path of a volume mount cannot be expanded, with the kubelet's message; empty if all can."""
    expressions = [mount.sub_path_expr for mount in container.volume_mounts if mount.sub_path_expr]
    values = make_environment(pod, container, found) if expressions else {}
    for expression in expressions:
        names = {match[1] for match in _REFERENCE.finditer(expression) if match[0] != "$$"}
        if missing := sorted(name for name in names if not values.get(name)):
            return f"missing value for {', '.join(missing)}"
        path = expand(expression, values)
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""


def resolve_field_ref(pod: Pod, path: str) -> str:
    """Return the value of a field of the downward API."""
    entry = _ENTRY.fullmatch(path)
    if entry is not None:
        held = pod.metadata.labels if entry[1] == "labels" else pod.metadata.annotations
        return held.get(entry[2], "")
    if path in ("metadata.labels", "metadata.annotations"):
        held = pod.metadata.labels if path.endswith("labels") else pod.metadata.annotations
        return "\n".join(f'{key}="{_escape(value)}"' for key, value in sorted(held.items()))
    read = _FIELDS.get(path)
    return read(pod) if read is not None else ""


def resolve_resource_field_ref(
    pod: Pod, container: Container, wanted: ResourceFieldSelector, allocatable: Mapping[str, str] = NO_RESOURCES
) -> str:
    """Return a request or limit in units of the divisor, rounded up; without a limit, that of the node."""
    named = wanted.container_name
    if named:
        container = next((one for one in pod.spec.containers or () if one.name == named), container)
    kind, _, name = wanted.resource.partition(".")
    amounts = container.resources.limits if kind == "limits" else container.resources.requests
    divisor = parse_quantity(wanted.divisor or "1")
    amount = parse_quantity(amounts.get(name, "0"))
    if kind == "limits" and name in _LIMITED and not amount:
        amount = parse_quantity(allocatable.get(name, "0"))
    unit = divisor.nanos or parse_quantity("1").nanos
    return str(-(-amount.nanos // unit))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

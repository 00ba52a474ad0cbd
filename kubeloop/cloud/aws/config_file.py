# SPDX-License-Identifier: Apache-2.0
"""Reads `--cloud-config` for AWS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kubeloop.cloud.provider_registry import InvalidProvider


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Settings; empty values are resolved by boto3 or by the cluster's tags."""

    region: str = ""
    endpoint_url: str = msgspec.field(default="", name="endpointURL")
    vpc: str = ""  # VPC of load balancers; required for them
    subnets: tuple[str, ...] = ()  # subnets of load balancers; all of the VPC if empty
    route_table: str = ""  # if empty, the one tagged kubernetes.io/cluster/<name>


def read_settings(path: str) -> AwsSettings:
    """Read the file; raises `InvalidProvider`."""
    if not path:
        return AwsSettings()
    import yaml

    try:
        plain: Any = yaml.safe_load(Path(path).read_text()) or {}
        return msgspec.convert(plain, AwsSettings)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise InvalidProvider(f"--cloud-config {path}: {error}") from None

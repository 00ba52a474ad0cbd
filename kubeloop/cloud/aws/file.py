"""What `--cloud-config` says about Amazon's cloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kubeloop.cloud.provider_registry import UnusableProvider


class AwsSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Empty texts are for boto3, or the tags of the cluster, to decide."""

    region: str = ""
    endpoint_url: str = msgspec.field(default="", name="endpointURL")
    vpc: str = ""  # where load balancers are made; needed for them
    subnets: tuple[str, ...] = ()  # theirs; those of the VPC if none is named
    route_table: str = ""  # the one that is tagged kubernetes.io/cluster/<name> if none is named


def read(path: str) -> AwsSettings:
    """Raises `UnusableProvider`."""
    if not path:
        return AwsSettings()
    import yaml

    try:
        plain: Any = yaml.safe_load(Path(path).read_text()) or {}
        return msgspec.convert(plain, AwsSettings)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise UnusableProvider(f"--cloud-config {path}: {error}") from None

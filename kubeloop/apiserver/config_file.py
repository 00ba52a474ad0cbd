# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the API server: YAML or JSON, decoded strictly into structs."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

GROUP: Final = "apiserver.config.k8s.io"


class ConfigFileError(ValueError):
    """Error for a file that cannot be used; the message is one sentence for the operator."""


class StrictStruct(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Part of a configuration file, in which unknown fields are errors."""


def decode_config(data: bytes, kind: str, versions: tuple[str, ...], target: type[T]) -> T:
    """Decode a file of one kind, in any of some versions; raises ConfigFileError."""
    import yaml

    try:
        document: Any = yaml.load(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigFileError(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(document, dict) or not document.get("kind"):
        raise ConfigFileError("Object 'Kind' is missing")
    version, found = str(document.get("apiVersion") or ""), str(document["kind"])
    if found != kind or version not in {f"{GROUP}/{one}" for one in versions}:
        raise ConfigFileError(f'no kind "{found}" is registered for version "{version}"')
    try:
        return msgspec.convert(document, target)
    except msgspec.ValidationError as error:
        raise ConfigFileError(f"strict decoding error: {error}") from None

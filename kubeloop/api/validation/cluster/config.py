# SPDX-License-Identifier: Apache-2.0
"""Validation of ConfigMaps and Secrets."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated.core_v1 import ConfigMap, Secret
from kubeloop.api.meta.field_path import FieldErrors, FieldPath, forbidden, invalid, required, too_long
from kubeloop.api.meta.name_rules import check_config_map_key
from kubeloop.api.validation.shared.go_json import object_decode_error
from kubeloop.api.validation.shared.objectmeta import IMMUTABLE, METADATA, byte_length
from kubeloop.api.validation.shared.rules import ValidationRules

_DATA: Final = FieldPath("data")
_BINARY_DATA: Final = FieldPath("binaryData")
_MAX_SIZE: Final = 1024 * 1024
_SEALED: Final = "field is immutable when `immutable` is set"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_REDACTED: Final = "<secret contents redacted>"

# Secret types that need certain keys, and those whose one key must hold a JSON object.
_JSON_KEYS: Final = {
    "kubernetes.io/dockercfg": ".dockercfg",
    "kubernetes.io/dockerconfigjson": ".dockerconfigjson",
}


def _validate_config_map(obj: ConfigMap) -> FieldErrors:
    errors: FieldErrors = []
    size = 0
    for key, value in obj.data.items():
        errors += [invalid(_DATA.key(key), key, message) for message in check_config_map_key(key)]
        if key in obj.binary_data:
            errors.append(invalid(_DATA.key(key), key, "duplicate of key present in binaryData"))
        size += byte_length(value)
    for key, content in obj.binary_data.items():
        errors += [invalid(_BINARY_DATA.key(key), key, message) for message in check_config_map_key(key)]
        size += len(content)
    if size > _MAX_SIZE:
        errors.append(too_long(FieldPath(""), _MAX_SIZE))
    return errors


def _validate_config_map_update(new: ConfigMap, old: ConfigMap) -> FieldErrors:
    errors: FieldErrors = []
    if old.immutable:
        if not new.immutable:
            errors.append(forbidden(FieldPath("immutable"), _SEALED))
        if new.data != old.data:
            errors.append(forbidden(_DATA, _SEALED))
        if new.binary_data != old.binary_data:
            errors.append(forbidden(_BINARY_DATA, _SEALED))
    return errors + _validate_config_map(new)


def _validate_secret(obj: Secret) -> FieldErrors:
    errors: FieldErrors = []
    for key in obj.data:
        errors += [invalid(_DATA.key(key), key, message) for message in check_config_map_key(key)]
    if sum(map(len, obj.data.values())) > _MAX_SIZE:
        errors.append(too_long(_DATA, _MAX_SIZE))
    return errors + _validate_secret_type(obj) if obj.type != "Opaque" else errors


def _validate_secret_type(obj: Secret) -> FieldErrors:
    if obj.type == "kubernetes.io/service-account-token" and not obj.metadata.annotations.get(_ACCOUNT_NAME):
        return [required(METADATA.child("annotations").key(_ACCOUNT_NAME))]
    if key := _JSON_KEYS.get(obj.type):
        return _validate_json_entry(obj, key)
    if obj.type == "kubernetes.io/basic-auth" and not {"username", "password"} & obj.data.keys():
        return [required(_DATA.key("username")), required(_DATA.key("password"))]
    if obj.type == "kubernetes.io/ssh-auth" and not obj.data.get("ssh-privatekey"):
        return [required(_DATA.key("ssh-privatekey"))]
    if obj.type == "kubernetes.io/tls":
        return [required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in obj.data]
    return []


def _validate_json_entry(obj: Secret, key: str) -> FieldErrors:
    if key not in obj.data:
        return [required(_DATA.key(key))]
    problem = object_decode_error(obj.data[key])
    return [invalid(_DATA.key(key), _REDACTED, problem)] if problem else []


def _validate_secret_update(new: Secret, old: Secret) -> FieldErrors:
    errors: FieldErrors = []
    if new.type != old.type:
        errors.append(invalid(FieldPath("type"), new.type, IMMUTABLE))
    if old.immutable:
        if not new.immutable:
            errors.append(forbidden(FieldPath("immutable"), _SEALED))
        if new.data != old.data:
            errors.append(forbidden(_DATA, _SEALED))
    return errors + _validate_secret(new)


CONFIG_MAP = ValidationRules(_validate_config_map, _validate_config_map_update)
SECRET = ValidationRules(_validate_secret, _validate_secret_update)

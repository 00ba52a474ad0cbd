"""EncryptionConfiguration files: parsed, validated with upstream's messages, and turned into transformers."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubeloop.apiserver.encryption.providers import AesCbc, AesGcm, Cipher, MissingPackageError, Secretbox
from kubeloop.apiserver.encryption.transformers import IDENTITY, EncryptionProvider, Transformer

GroupResource = tuple[str, str]

_ANY = "*"
_NO_REST = ("apiserveripinfo", "serviceipallocations", "servicenodeportallocations")
_AES_SIZES, _BOX_SIZES = (16, 24, 32), (32,)
_CIPHERS: dict[str, tuple[Callable[[bytes], Cipher], tuple[int, ...], str]] = {
    "aesgcm": (AesGcm, _AES_SIZES, "AES"),
    "aescbc": (AesCbc, _AES_SIZES, "AES"),
    "secretbox": (Secretbox, _BOX_SIZES, "Secretbox"),
}


class EncryptionConfigError(ValueError):
    """Error for an invalid file; the message is one sentence for the operator."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class EncryptionKey(_Strict, frozen=True):
    """Key of a provider: name, and secret in base64."""

    name: str = ""
    secret: str = ""


class ProviderKeys(_Strict, frozen=True):
    """Keys of a provider; the first one encrypts."""

    keys: tuple[EncryptionKey, ...] = ()


class ProviderConfiguration(_Strict, frozen=True):
    """Provider configuration: exactly one field is set."""

    aesgcm: ProviderKeys | None = None
    aescbc: ProviderKeys | None = None
    secretbox: ProviderKeys | None = None
    identity: dict[str, Any] | None = None
    kms: dict[str, Any] | None = None


class ResourceConfiguration(_Strict, frozen=True):
    """Resources and their providers."""

    resources: tuple[str, ...] = ()
    providers: tuple[ProviderConfiguration, ...] = ()


class EncryptionConfiguration(_Strict, frozen=True):
    """EncryptionConfiguration file."""

    kind: str = ""
    api_version: str = ""
    resources: tuple[ResourceConfiguration, ...] = ()


class ResourceTransformers:
    """Transformers by resource."""

    def __init__(self, found: Mapping[GroupResource, Transformer]) -> None:
        self._found = dict(found)

    def of(self, group: str, resource: str) -> Transformer | None:
        """Return the transformer of a resource; None if it is not configured."""
        for wanted in ((group, resource), (group, _ANY), (_ANY, _ANY)):
            if wanted in self._found:
                return self._found[wanted]
        return None


def read_configuration(path: Path) -> ResourceTransformers:
    """Read a file into transformers. Raises `EncryptionConfigError`."""
    import yaml

    try:
        document: Any = yaml.safe_load(path.read_text())
        config = msgspec.convert(document, EncryptionConfiguration)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError, OSError) as error:
        raise EncryptionConfigError(f"{path} is not an encryption configuration: {error}") from None
    if (config.api_version, config.kind) != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration"):
        raise EncryptionConfigError(f"{path}: it is a {config.api_version} {config.kind}, no EncryptionConfiguration")
    problems = list(validate_configuration(config))
    if problems:
        raise EncryptionConfigError(f"{path}: {'; '.join(problems)}")
    try:
        return transformers_of(config)
    except (MissingPackageError, EncryptionConfigError) as error:
        raise EncryptionConfigError(f"{path}: {error}") from None


def transformers_of(config: EncryptionConfiguration) -> ResourceTransformers:
    """Return the transformers of a valid configuration; a resource named twice can be read by all its providers."""
    found: dict[GroupResource, list[EncryptionProvider]] = {}
    for one in config.resources:
        providers = [_provider_of(provider) for provider in one.providers]
        for text in one.resources:
            named = parse_group_resource(text)
            for masking in ((named[0], _ANY), (_ANY, _ANY)):
                if masking in found and masking != named:
                    raise EncryptionConfigError(f'resource "{text}" is masked by earlier rule "{_text(masking)}"')
            found[named] = [*found.get(named, ()), *providers]
    return ResourceTransformers({named: Transformer(providers) for named, providers in found.items()})


def parse_group_resource(text: str) -> GroupResource:
    """Parse a group resource: `secrets` and `secrets.` are of the core group, `deployments.apps` is not."""
    resource, _, group = text.partition(".")
    return group, resource


def _text(named: GroupResource) -> str:
    return "*." if named == ("", _ANY) else ".".join(part for part in (named[1], named[0]) if part)


def _provider_of(config: ProviderConfiguration) -> EncryptionProvider:
    for kind, (cipher, _, title) in _CIPHERS.items():
        keys: ProviderKeys | None = getattr(config, kind)
        if keys is not None:
            opened = tuple((f"{key.name}:".encode(), cipher(base64.b64decode(key.secret))) for key in keys.keys)
            missing = f"no matching key was found for the provided {title} transformer"
            return EncryptionProvider(f"k8s:enc:{kind}:v1:".encode(), opened, missing)
    return IDENTITY


def validate_configuration(config: EncryptionConfiguration) -> Iterator[str]:
    """Yield the validation errors, each with its path."""
    if not config.resources:
        yield "resources: Required value: at least one resources is required"
    for index, one in enumerate(config.resources):
        path = f"resources[{index}]"
        for name in ("resources", "providers"):
            if not getattr(one, name):
                yield f"{path}.{name}: Required value: at least one {path}.{name} is required"
        yield from _resource_problems(one.resources, f"{path}.resources")
        for at, provider in enumerate(one.providers):
            yield from _provider_problems(provider, f"{path}.providers[{at}]")


def _resource_problems(resources: tuple[str, ...], path: str) -> Iterator[str]:
    for index, text in enumerate(resources):
        problem = _name_problem(text)
        if problem:
            yield f'{path}[{index}]: Invalid value: "{text}": {problem}'
    names = [parse_group_resource(text) for text in resources]
    listed = msgspec.json.encode(resources).decode()
    if len(set(names)) < len(names):
        yield f"{path}: Invalid value: {listed}: the same resource cannot be specified multiple times"
    if any(_overlaps(one, other) for i, one in enumerate(names) for j, other in enumerate(names) if i != j):
        yield (
            f"{path}: Invalid value: {listed}: using overlapping resources such as 'secrets' and '*.' in the same "
            "resource list is not allowed as they will be masked"
        )


def _overlaps(one: GroupResource, other: GroupResource) -> bool:
    if one == other:
        return False
    return one == (_ANY, _ANY) or (one[0] == other[0] and _ANY in (one[1], other[1]))


def _name_problem(text: str) -> str:
    group, resource = parse_group_resource(text)
    if text != text.lower():
        return "resource name should not contain capital letters"
    if text == _ANY:
        return "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
    if text in _NO_REST:
        return "resources which do not have REST API/s cannot be encrypted"
    if group == "events.k8s.io":
        return (
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. "
            "Use 'events' instead in the config file"
        )
    if group == "extensions":
        return "'extensions' group has been removed and cannot be used for encryption"
    if group == _ANY and resource != _ANY:
        return "encrypting the same resource across groups is not supported"
    return ""


def _provider_problems(provider: ProviderConfiguration, path: str) -> Iterator[str]:
    given = [name for name in provider.__struct_fields__ if getattr(provider, name) is not None]
    if not given:
        expected = "KMS, AESGCM, AESCBC, Secretbox, Identity"
        yield f"{path}: Invalid value: provider does not contain any of the expected providers: {expected}"
    elif len(given) > 1:
        why = "more than one provider specified in a single element, should split into different list elements"
        yield f"{path}: Invalid value: {why}"
    elif given == ["kms"]:
        yield f"{path}.kms: kubeloop does not support key management services yet"
    elif given[0] in _CIPHERS:
        keys: ProviderKeys = getattr(provider, given[0])
        path = f"{path}.{given[0]}.keys"
        if not keys.keys:
            yield f"{path}: Required value: at least one keys is required"
        for index, key in enumerate(keys.keys):
            yield from _key_problems(key, f"{path}[{index}]", _CIPHERS[given[0]][1])


def _key_problems(key: EncryptionKey, path: str, sizes: tuple[int, ...]) -> Iterator[str]:
    """Yield the errors of a key; the secret is never shown."""
    if not key.name:
        yield f"{path}.name: Required value: name is a mandatory field for a key"
    if not key.secret:
        yield f"{path}.secret: Required value: secret is a mandatory field for a key"
        return
    try:
        secret = base64.b64decode(key.secret, validate=True)
    except binascii.Error:
        yield f'{path}.secret: Invalid value: "REDACTED": secrets must be base64 encoded'
        return
    if len(secret) not in sizes:
        listed = " ".join(map(str, sizes))
        why = f"secret is not of the expected length, got {len(secret)}, expected one of [{listed}]"
        yield f'{path}.secret: Invalid value: "REDACTED": {why}'

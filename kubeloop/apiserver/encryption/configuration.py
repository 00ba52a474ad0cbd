# SPDX-License-Identifier: Apache-2.0
"""EncryptionConfiguration files: parsed, validated with upstream's messages, and turned into transformers."""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kubeloop.api.scalars.duration import SECOND, DurationError, parse_duration
from kubeloop.apiserver.encryption.kms.envelope_metrics import EnvelopeMetrics
from kubeloop.apiserver.encryption.providers import AesCbc, AesGcm, Cipher, MissingPackageError, Secretbox
from kubeloop.apiserver.encryption.transformers import IDENTITY, EncryptionProvider, Transformer
from kubeloop.clock import Clock, SystemClock
from kubeloop.metrics import MetricRegistry

if TYPE_CHECKING:
    from kubeloop.apiserver.encryption.kms.messages import DataKeySource
    from kubeloop.apiserver.encryption.kms.provider import KmsProvider

GroupResource = tuple[str, str]

KMS_PREFIX = b"k8s:enc:kms:v2:"
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


class KMSConfiguration(_Strict, frozen=True):
    """Plugin of a key management service."""

    name: str = ""
    endpoint: str = ""
    timeout: str = "3s"
    api_version: str = "v1"
    cache_size: int | None = msgspec.field(default=None, name="cachesize")


class ProviderConfiguration(_Strict, frozen=True):
    """Provider configuration: exactly one field is set."""

    aesgcm: ProviderKeys | None = None
    aescbc: ProviderKeys | None = None
    secretbox: ProviderKeys | None = None
    identity: dict[str, Any] | None = None
    kms: KMSConfiguration | None = None


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
    """Transformers by resource, and the KMS providers among them."""

    def __init__(self, found: Mapping[GroupResource, Transformer], kms: Sequence[KmsProvider] = ()) -> None:
        self._found = dict(found)
        self.kms = {kms_prefix(one.name): one for one in kms}

    async def start(self) -> None:
        """Ask the KMS plugins for their keys."""
        await asyncio.gather(*(one.start() for one in self.kms.values()))

    async def close(self) -> None:
        """Stop the probes of KMS plugins."""
        for one in self.kms.values():
            await one.close()

    def is_unknown(self, stored: bytes) -> bool:
        """Return True if a KMS plugin has to decrypt the data key of a value first."""
        found = self._unknown(stored)
        return found is not None

    async def resolve(self, values: Iterable[bytes]) -> None:
        """Let KMS plugins decrypt the data keys of values, and wait for those that they are decrypting."""
        wanted: dict[bytes, set[DataKeySource]] = {prefix: set() for prefix in self.kms}
        for stored in values:
            if (found := self._unknown(stored)) is not None:
                wanted[found[0]].add(found[1])
        await asyncio.gather(*(self.kms[prefix].resolve(sources) for prefix, sources in wanted.items()))

    def _unknown(self, stored: bytes) -> tuple[bytes, DataKeySource] | None:
        if not stored.startswith(KMS_PREFIX):
            return None
        prefix = stored[: stored.find(b":", len(KMS_PREFIX)) + 1]
        provider = self.kms.get(prefix)
        source = provider.unknown_source(stored[len(prefix) :]) if provider is not None else None
        return None if source is None else (prefix, source)

    def of(self, group: str, resource: str) -> Transformer | None:
        """Return the transformer of a resource; None if it is not configured."""
        for wanted in ((group, resource), (group, _ANY), (_ANY, _ANY)):
            if wanted in self._found:
                return self._found[wanted]
        return None


def kms_prefix(name: str) -> bytes:
    """Return the prefix of values that a KMS provider has encrypted."""
    return KMS_PREFIX + f"{name}:".encode()


def read_configuration(
    path: Path, clock: Clock | None = None, metrics: EnvelopeMetrics | None = None
) -> ResourceTransformers:
    """Read a file into transformers. Raises `EncryptionConfigError`. KMS providers need a clock, and a start."""
    import yaml

    try:
        document: Any = yaml.safe_load(path.read_text())
        config = msgspec.convert(document, EncryptionConfiguration)
    except (yaml.YAMLError, msgspec.ValidationError, UnicodeDecodeError, OSError) as error:
        raise EncryptionConfigError(f"{path} is not an encryption configuration: {error}") from None
    if (config.api_version, config.kind) != ("apiserver.config.k8s.io/v1", "EncryptionConfiguration"):
        raise EncryptionConfigError(
            f"{path}: expected an EncryptionConfiguration, got {config.api_version} {config.kind}"
        )
    problems = list(validate_configuration(config))
    if problems:
        raise EncryptionConfigError(f"{path}: {'; '.join(problems)}")
    try:
        clock = clock or SystemClock()
        return transformers_of(config, clock, metrics or EnvelopeMetrics(MetricRegistry(), clock))
    except (MissingPackageError, EncryptionConfigError) as error:
        raise EncryptionConfigError(f"{path}: {error}") from None


def transformers_of(config: EncryptionConfiguration, clock: Clock, metrics: EnvelopeMetrics) -> ResourceTransformers:
    """Return the transformers of a valid configuration; a resource named twice can be read by all its providers."""
    found: dict[GroupResource, list[EncryptionProvider]] = {}
    kms: list[KmsProvider] = []
    for one in config.resources:
        providers = []
        for provider in one.providers:
            if provider.kms is not None:
                kms.append(_kms_provider_of(provider.kms, clock, metrics))
                providers.append(EncryptionProvider(kms_prefix(kms[-1].name), ((b"", kms[-1]),)))
            else:
                providers.append(_provider_of(provider))
        for text in one.resources:
            named = parse_group_resource(text)
            for masking in ((named[0], _ANY), (_ANY, _ANY)):
                if masking in found and masking != named:
                    raise EncryptionConfigError(f'resource "{text}" is masked by earlier rule "{_text(masking)}"')
            found[named] = [*found.get(named, ()), *providers]
    return ResourceTransformers({named: Transformer(providers) for named, providers in found.items()}, kms)


def _kms_provider_of(config: KMSConfiguration, clock: Clock, metrics: EnvelopeMetrics) -> KmsProvider:
    from kubeloop.apiserver.encryption.kms.client import KmsClient
    from kubeloop.apiserver.encryption.kms.provider import KmsProvider

    path = config.endpoint.removeprefix("unix://")
    observe = partial(metrics.observe_call, config.name)
    client = KmsClient(path, parse_duration(config.timeout) / SECOND, clock, observe)
    return KmsProvider(config.name, client, clock, metrics)


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
    yield from _duplicate_kms_names(config)


def _duplicate_kms_names(config: EncryptionConfiguration) -> Iterator[str]:
    seen: set[str] = set()
    for index, one in enumerate(config.resources):
        for at, provider in enumerate(one.providers):
            if provider.kms is not None and provider.kms.name in seen:
                name = provider.kms.name
                why = f"duplicate KMS provider name {name}, names must be unique"
                yield f'resources[{index}].providers[{at}].kms.name: Invalid value: "{name}": {why}'
            seen |= {provider.kms.name} if provider.kms is not None else set()


def _kms_problems(config: KMSConfiguration, path: str) -> Iterator[str]:
    name, endpoint = config.name, config.endpoint
    if not name:
        yield f"{path}.name: Required value: name is a mandatory field for a provider"
    if ":" in name:
        yield f"{path}.name: Invalid value: \"{name}\": invalid KMS provider name {name}, must not contain ':'"
    try:
        is_positive = parse_duration(config.timeout) > 0
    except DurationError:
        is_positive = False
    if not is_positive:
        yield f'{path}.timeout: Invalid value: "{config.timeout}": timeout should be a positive value'
    if not endpoint:
        yield f'{path}.endpoint: Invalid value: "": endpoint is a mandatory field for a kms'
    elif not endpoint.startswith("unix://"):
        scheme = endpoint.partition(":")[0] if ":" in endpoint else ""
        why = f'unsupported scheme "{scheme}" for KMS provider, only unix is supported'
        yield f'{path}.endpoint: Invalid value: "{endpoint}": {why}'
    if config.api_version == "v1":
        yield (
            f"{path}: KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  "
            "Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
        )
    elif config.api_version != "v2":
        why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
        yield f'{path}.apiVersion: Invalid value: "{config.api_version}": {why}'
    elif config.cache_size is not None:
        yield f"{path}.cachesize: Invalid value: {config.cache_size}: cachesize is not supported in v2"


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
    elif provider.kms is not None:
        yield from _kms_problems(provider.kms, f"{path}.kms")
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

# SPDX-License-Identifier: Apache-2.0
"""KMS v2 provider: keeps a seed that the plugin has encrypted, replaces it when the plugin's key changes, and derives
data keys from it.

A probe asks the plugin for its status every minute. Reads are possible with every seed that has been decrypted; writes
stop three minutes after the last successful probe.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from kubeloop.api.meta.field_path import aggregate, quote
from kubeloop.apiserver.encryption.kms.client import KmsClient, KmsError
from kubeloop.apiserver.encryption.kms.envelope_metrics import EnvelopeMetrics, key_hash
from kubeloop.apiserver.encryption.kms.messages import (
    HKDF_SEED,
    DataKeySource,
    InvalidMessage,
    StatusResponse,
    decode_object,
    encode_object,
    key_id_problem,
    validate_source,
)
from kubeloop.apiserver.encryption.providers import AesGcm, Cipher, DecryptionError, EncryptionError
from kubeloop.clock import Clock, new_uid

log = logging.getLogger(__name__)

_SEED_SIZE: Final = 32
_INFO_SIZE: Final = 32
_HEALTHY_SECONDS: Final = 60.0
_UNHEALTHY_SECONDS: Final = 10.0
_WRITE_TTL: Final = timedelta(minutes=3)
_VERSIONS: Final = ("v2", "v2beta1")
_TOO_SHORT: Final = "the stored data was shorter than the required size"


class UnknownDataKey(DecryptionError):
    """Error for a value whose seed has to be decrypted by the plugin first."""


class DerivedKeyCipher:
    """AES-GCM with a key for each value, which HKDF-SHA256 expands from a seed and 32 random bytes."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) < _SEED_SIZE:
            raise ValueError(f"invalid seed length {len(seed)} used for key generation")
        self._seed = seed

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt under a new key; the random bytes are prepended."""
        info = os.urandom(_INFO_SIZE)
        return info + self._cipher(info).encrypt(plain, context)

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt; raises `DecryptionError`."""
        if len(sealed) < _INFO_SIZE:
            raise DecryptionError(_TOO_SHORT)
        return self._cipher(sealed[:_INFO_SIZE]).decrypt(sealed[_INFO_SIZE:], context)

    def _cipher(self, info: bytes) -> AesGcm:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

        return AesGcm(HKDFExpand(SHA256(), _SEED_SIZE, info).derive(self._seed))


class WriteState(NamedTuple):
    """Seed for writes, in its encrypted form, and the time until which it may be used without a successful probe."""

    source: DataKeySource
    cipher: DerivedKeyCipher
    expires: datetime


class KmsProvider:
    """Cipher of one plugin; `run` keeps its seed current."""

    def __init__(self, name: str, client: KmsClient, clock: Clock, metrics: EnvelopeMetrics) -> None:
        self.name = name
        self._metrics = metrics
        self._client = client
        self._clock = clock
        self._state: WriteState | None = None
        self._ciphers: dict[DataKeySource, Cipher] = {}
        self._version = ""
        self._lookups: dict[DataKeySource, asyncio.Task[None]] = {}
        self._failures: dict[DataKeySource, str] = {}
        self._probing: asyncio.Task[None] | None = None
        self.problem = f"kmsv2 Provider {name} is not healthy, error: got unexpected nil transformer"
        metrics.set_cache_size(name, lambda: len(self._ciphers))

    async def start(self) -> None:
        """Probe the plugin once, and from then on in the background."""
        await self.probe()
        self._probing = asyncio.create_task(self._run(), name=f"KMS plugin {self.name}")

    async def close(self) -> None:
        """Stop probing, and close the connection."""
        tasks = [task for task in (self._probing, *self._lookups.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._client.close()

    # -- values -------------------------------------------------------------------------------------------------------

    def encrypt(self, plain: bytes, context: bytes) -> bytes:
        """Encrypt with the current seed; raises `EncryptionError`."""
        state, now = self._state, self._clock.now()
        if state is None:
            raise EncryptionError("got unexpected nil transformer")
        if now > state.expires:
            key, expired = key_hash(state.source.key_id), state.expires.isoformat()
            raise EncryptionError(
                f"encryptedDEKSource with keyID hash {quote(key)} expired at {expired} "
                f"(current time is {now.isoformat()})"
            )
        sealed = state.cipher.encrypt(plain, context)
        self._metrics.count_use("to_storage", self.name, state.source.key_id)
        return encode_object(state.source, sealed)

    def decrypt(self, sealed: bytes, context: bytes) -> bytes:
        """Decrypt with the value's seed; raises `UnknownDataKey` if the plugin has to decrypt that first."""
        try:
            found = decode_object(sealed)
        except InvalidMessage as error:
            raise DecryptionError(str(error)) from None
        cipher = self._ciphers.get(found.source)
        if cipher is None:
            why = self._failures.get(found.source, "the plugin has not been asked yet")
            raise UnknownDataKey(f"failed to decrypt DEK, error: {why}")
        self._metrics.count_use("from_storage", self.name, found.source.key_id)
        return cipher.decrypt(found.data, context)

    def is_stale(self, sealed: bytes) -> bool:
        """Return True if a value was written under another key of the plugin than it uses now."""
        try:
            source = decode_object(sealed).source
        except InvalidMessage:
            return True
        state = self._state
        return state is None or (source.key_id, source.type) != (state.source.key_id, state.source.type)

    # -- seeds of other times and servers ------------------------------------------------------------------------------

    def unknown_source(self, sealed: bytes) -> DataKeySource | None:
        """Return the source of a value's key if the plugin has to decrypt it; None if it is known or invalid."""
        try:
            source = decode_object(sealed).source
        except InvalidMessage:
            return None
        return None if source in self._ciphers else source

    async def resolve(self, sources: Iterable[DataKeySource]) -> None:
        """Let the plugin decrypt sources, all at the same time; a failure is kept as the reason for reads."""
        for source in sources:
            if source not in self._lookups and source not in self._ciphers:
                task = self._lookups[source] = asyncio.create_task(self._look_up(source))
                task.add_done_callback(partial(self._forget_lookup, source))
        if self._lookups:
            await asyncio.wait(tuple(self._lookups.values()))

    def _forget_lookup(self, source: DataKeySource, _: asyncio.Task[None]) -> None:
        self._lookups.pop(source, None)

    async def _look_up(self, source: DataKeySource) -> None:
        self._metrics.cache_misses.value += 1
        try:
            key = await self._client.decrypt(source, new_uid(self._clock))
            self._ciphers[source] = DerivedKeyCipher(key) if source.type == HKDF_SEED else AesGcm(key)
            self._failures.pop(source, None)
        except (KmsError, InvalidMessage, ValueError) as error:
            self._failures[source] = str(error)
            log.error("KMS plugin %s does not decrypt a data key: %s", self.name, error)

    # -- probes -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_UNHEALTHY_SECONDS if self.problem else _HEALTHY_SECONDS)
            await self.probe()

    async def probe(self) -> None:
        """Ask for the status, and replace the seed if the key has changed; `problem` says what is wrong."""
        problems: list[str] = []
        try:
            status = await self._client.status()
        except (KmsError, InvalidMessage) as error:
            problems.append(f"failed to perform status section of the healthz check for KMS Provider {self.name}, "
                            f"error: {error}")  # fmt: skip
        else:
            problems += self._status_problems(status)
            problem = key_id_problem(status.key_id)
            if problem:
                self._metrics.count_invalid_key(self.name, "too_long" if status.key_id else "empty")
                key = quote(key_hash(status.key_id))
                problems.append(f"got invalid KMSv2 KeyID hash {key}: {problem}")
            else:
                self._metrics.set_status_key(self.name, status.key_id)
                problems += await self._rotate(status.key_id)
        self.problem = f"kmsv2 Provider {self.name} is not healthy, error: {aggregate(problems)}" if problems else ""
        if problems:
            log.error("%s", self.problem)

    def _status_problems(self, status: StatusResponse) -> list[str]:
        problems = []
        if status.healthz != "ok":
            problems.append(f"got unexpected healthz status: {status.healthz}")
        if status.version not in _VERSIONS:
            problems.append(f"expected KMSv2 API version v2, got {status.version}")
        else:
            self._version = self._version or status.version
            if status.version != self._version:
                problems.append(
                    "KMSv2 API version should not change after the initial status response version "
                    f"{self._version}, got {status.version}"
                )
        return problems

    async def _rotate(self, key_id: str) -> list[str]:
        """Use the current seed for longer, or a new one if the plugin's key is another; return problems."""
        state, expires = self._state, self._clock.now() + _WRITE_TTL
        if state is not None and state.source.key_id == key_id:
            self._state = state._replace(expires=expires)
            return []
        seed, uid = self._generate_seed(), new_uid(self._clock)
        try:
            encrypted = await self._client.encrypt(seed, uid)
            source = DataKeySource(HKDF_SEED, encrypted.ciphertext, encrypted.key_id, encrypted.annotations)
            validate_source(source)
        except (KmsError, InvalidMessage) as error:
            return [f"failed to rotate DEK uid={quote(uid)}, errGen=failed to encrypt DEK, error: {error}"]
        if encrypted.key_id != key_id:
            hashes = f"statusKeyIDHash={quote(key_hash(key_id))}, encryptKeyIDHash={quote(key_hash(encrypted.key_id))}"
            return [f"failed to rotate DEK uid={quote(uid)}, {hashes}"]
        cipher = DerivedKeyCipher(seed)
        self._ciphers[source] = cipher
        self._state = WriteState(source, cipher, expires)
        return []

    def _generate_seed(self) -> bytes:
        began = self._metrics.monotonic()
        try:
            seed = os.urandom(_SEED_SIZE)
        except OSError:
            self._metrics.generation_failures.value += 1
            raise
        self._metrics.observe_generation(self._metrics.monotonic() - began)
        return seed

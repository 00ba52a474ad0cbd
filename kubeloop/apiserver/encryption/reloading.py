"""Reloads a changed EncryptionConfiguration, and keeps the last valid one on errors."""

from __future__ import annotations

import logging
from pathlib import Path

from kubeloop.apiserver.encryption.configuration import EncryptionConfigError, read_configuration
from kubeloop.apiserver.encryption.store import EncryptedStore

log = logging.getLogger(__name__)

CHECK_SECONDS = 5.0


class EncryptionConfigReloader:
    """Reloader of one file for one store."""

    def __init__(self, path: Path, store: EncryptedStore) -> None:
        self._path = path
        self._store = store
        self._seen = self._content()

    def look(self) -> None:
        """Reload the file if it has changed; a missing file, as while it is replaced, is no change."""
        content = self._content()
        if not content or content == self._seen:
            return
        self._seen = content
        try:
            transformers = read_configuration(self._path)
        except EncryptionConfigError as error:
            log.error("the configuration of encryption stays as it was: %s", error)
        else:
            self._store.use(transformers)

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

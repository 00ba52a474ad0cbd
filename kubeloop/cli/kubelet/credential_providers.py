# SPDX-License-Identifier: Apache-2.0
"""Reads the configuration of credential provider plugins: `--image-credential-provider-config` and `-bin-dir`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kubeloop.apiserver.decoding.yaml_decoder import read_yaml
from kubeloop.kubelet.credentialprovider.provider_config import (
    CredentialPlugins,
    CredentialProvider,
    ProviderConfigError,
    decode_providers,
    merge_providers,
    validate_providers,
)

_SUFFIXES = (".json", ".yaml", ".yml")


def read_credential_plugins(config: str, folder: str, *, allows_tokens: bool) -> CredentialPlugins:
    """Return the plugins of a file, or of the files of a folder. Raises `ProviderConfigError`.

    `folder` has the programs. Both are empty if there are no plugins.
    """
    if not config and not folder:
        return CredentialPlugins()
    programs = Path(folder)
    if not folder or not programs.exists():
        raise ProviderConfigError(f"plugin binary directory {folder} did not exist")
    providers = merge_providers([_read(file) for file in _config_files(config)])
    if errors := validate_providers(providers, allows_tokens=allows_tokens):
        texts = list(dict.fromkeys(map(str, errors)))
        message = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        raise ProviderConfigError(f"failed to validate credential provider config: {message}")
    for one in providers:
        _check_program(programs / one.name)
    return CredentialPlugins(providers, programs)


def _config_files(config: str) -> list[Path]:
    if not config:
        raise ProviderConfigError("credential provider config path is empty")
    path = Path(config)
    try:
        path.stat()
        entries = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError as error:
        raise ProviderConfigError(f'unable to access path "{config}": {(error.strerror or "").lower()}') from None
    if not path.is_dir():
        return entries
    found = [one for one in entries if one.suffix in _SUFFIXES and not one.is_dir()]
    if not found:
        raise ProviderConfigError(f'no configuration files found in directory "{config}"')
    return found


def _read(file: Path) -> tuple[CredentialProvider, ...]:
    try:
        document: Any
        document, duplicates = read_yaml(file.read_bytes())
        if duplicates:
            raise ProviderConfigError(f"strict decoding error: {duplicates[0]}")
        return decode_providers(document)
    except OSError as error:
        raise ProviderConfigError(f'unable to read file "{file}": {(error.strerror or "").lower()}') from None
    except ValueError as error:
        raise ProviderConfigError(f'error decoding config "{file}": {error}') from None


def _check_program(program: Path) -> None:
    if not program.exists():
        raise ProviderConfigError(f"plugin binary executable {program} did not exist")
    if program.is_dir() or not os.access(program, os.X_OK):
        raise ProviderConfigError(f"error inspecting binary executable {program}: permission denied")

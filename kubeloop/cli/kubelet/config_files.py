# SPDX-License-Identifier: Apache-2.0
"""Reads the kubelet's configuration: a file, drop-ins and flags, validated, with warnings about fields without effect.

--config FILE ◀─ --config-dir (*.conf in lexical order) ◀─ flags ─▶ effective KubeletConfiguration
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubeloop.apiserver.decoding.yaml_decoder import read_yaml
from kubeloop.cli.kubelet.config_flags import flag_overrides
from kubeloop.kubelet.config.decode import check_document, decode_configuration, features_of, merge_patch
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.config.unsupported_fields import refused_fields
from kubeloop.kubelet.config.validation import validate_configuration
from kubeloop.runtime.component_config import ComponentConfigError

_DROP_IN = ".conf"
# Fields with paths, which are relative to the folder of the file.
_PATHS = (
    ("staticPodPath",),
    ("authentication", "x509", "clientCAFile"),
    ("tlsCertFile",),
    ("tlsPrivateKeyFile",),
    ("resolvConf",),
    ("volumePluginDir",),
    ("podLogsDir",),
)


def load_configuration(options: argparse.Namespace) -> KubeletConfiguration:
    """Return the effective configuration of the flags. Raises `ComponentConfigError`."""
    document = read_document(options.config) if options.config is not None else {}
    if options.config_dir is not None:
        for path in drop_ins(options.config_dir):
            document = merge_patch(document, _read(path))
    config = decode_configuration(document, flag_overrides(options))
    problems = [*validate_configuration(config, features_of(config.feature_gates)), *refused_fields(config)]
    if problems:
        raise ComponentConfigError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return config


def read_document(path: Path) -> dict[str, Any]:
    """Return the document of a file, with absolute paths. Raises `ComponentConfigError`."""
    document, folder = _read(path), path.absolute().parent
    for field in _PATHS:
        *parts, last = field
        part: Any = document
        for name in parts:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(found := part.get(last), str) and found:
            part[last] = str(folder / found)
    return document


def drop_ins(folder: Path) -> Iterator[Path]:
    """Yield the drop-in files of a folder and its subfolders in lexical order. Raises `ComponentConfigError`."""
    try:
        entries = sorted(folder.iterdir(), key=lambda one: one.name)
    except OSError as error:
        raise ComponentConfigError(f"--config-dir {folder}: {(error.strerror or str(error)).lower()}") from None
    for one in entries:
        if one.is_dir() and not one.is_symlink():
            yield from drop_ins(one)
        elif one.suffix == _DROP_IN:
            yield one


def _read(path: Path) -> dict[str, Any]:
    """Return the checked document of a file. Raises `ComponentConfigError`."""
    try:
        content = path.read_bytes()
        if not content.strip():
            raise ComponentConfigError("the file is empty")
        document, duplicates = read_yaml(content)
        if duplicates:
            raise ComponentConfigError(duplicates[0])
        return check_document(document)
    except OSError as error:
        raise ComponentConfigError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise ComponentConfigError(f"{path}: {error}") from None

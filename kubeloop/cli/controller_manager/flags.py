# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop controller-manager`, generated from `ManagerConfig`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.flags.help_texts import HELP_TEXTS
from kubeloop.cli.flags.types import boolean, duration
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.cli.program.output import add_output_flag
from kubeloop.controllers.app.config import Duration, ManagerConfig, Strings, defaults

_ABOUT = """Run the controllers against an API server, with kube-controller-manager's flags and defaults.
Flags that kubeloop does not implement are accepted and have no effect; /configz lists them."""
_EXAMPLES = """Examples:
  # All controllers that are on by default
  kubeloop controller-manager --kubeconfig admin.conf

  # Two controllers, without leader election
  kubeloop controller-manager --kubeconfig admin.conf --controllers deployment,replicaset --leader-elect=false

  # The status of a running manager's controllers
  kubeloop controller-manager status --kubeconfig admin.conf
"""
_STATUS_EXAMPLES = """Examples:
  # The controllers of the manager on this machine
  kubeloop controller-manager status --kubeconfig admin.conf
"""
_STATUS_ABOUT = "Show the status of every controller of a running controller manager."
# Flags with a single-letter form upstream.
_SHORT = {"v": ("-v",)}
# Lists whose values contain commas: the flag is repeated.
_UNSPLIT = ("tls_sni_cert_key",)


class ManagerConfigError(ValueError):
    """Invalid configuration file; the message is one sentence for a user."""


def certificate_folder() -> Path:
    """Return the default folder of the port's self-signed certificate."""
    return state_dir() / "controller-manager"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags, and the command `status`."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    hints = get_type_hints(ManagerConfig)
    for name, default in defaults().items():
        add_flag(parser, name, hints[name], default)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="YAML file with flags; the command line takes precedence"
    )
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")
    _add_status(parser.add_subparsers(dest="subcommand", metavar="[status]"))


def config_of(options: argparse.Namespace) -> ManagerConfig:
    """Build the configuration: flags before file before defaults."""
    return ManagerConfig(**(_read(options.config) | given_flags(options)))


def given_flags(options: argparse.Namespace) -> dict[str, Any]:
    """Return only the flags of the command line."""
    said = vars(options)
    return {
        name: tuple(said[name]) if isinstance(said[name], list) else said[name]
        for name in ManagerConfig.__struct_fields__
        if name in said
    }


def flag_of(field_name: str) -> str:
    """Return the flag of a configuration field."""
    return "--" + field_name.replace("_", "-")


def add_flag(parser: argparse.ArgumentParser, name: str, kind: Any, default: Any) -> None:
    """Add one flag of a type."""
    about = HELP_TEXTS[name]
    shown = "" if default in ("", (), 0, False) else f"(default: {_shown(default)})"
    options: dict[str, Any] = {"default": argparse.SUPPRESS, "help": f"{about} {shown}".strip()}
    if kind is bool:
        options |= {"type": boolean, "nargs": "?", "const": True, "metavar": "BOOL"}
    elif name in _UNSPLIT:
        options |= {"action": "append", "metavar": "TEXT"}
    elif kind == Strings:
        options |= {"type": _words, "action": "extend", "metavar": "A,B"}
    else:
        options |= {"type": _READERS[kind], "metavar": _METAVARS.get(kind, "TEXT")}
    parser.add_argument(*_SHORT.get(name, ()), flag_of(name), dest=name, **options)


def _add_status(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "status", help="Show the status of every controller", description=_STATUS_ABOUT, epilog=_STATUS_EXAMPLES
    )
    add_output_flag(parser)
    parser.add_argument(
        "--server",
        default="https://127.0.0.1:10257",
        help="URL of the controller manager (default: https://127.0.0.1:10257)",
    )
    parser.add_argument("--kubeconfig", type=str, default=argparse.SUPPRESS, help="kubeconfig with the credentials")
    parser.add_argument(
        "--certificate-authority",
        type=Path,
        default=certificate_folder() / "kube-controller-manager.crt",
        help="CA bundle or certificate of the manager (default: its self-signed certificate on this machine)",
    )


def _read(path: Path | None) -> dict[str, Any]:
    """Read flags from a file; their values are parsed like the command line's."""
    if path is None:
        return {}
    import yaml

    try:
        document = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError as error:
        raise ManagerConfigError(f"--config {path}: invalid YAML: {error}") from None
    if not isinstance(document, dict):
        raise ManagerConfigError(f"--config {path}: expected a mapping of flags to values")
    hints = get_type_hints(ManagerConfig)
    found: dict[str, Any] = {}
    for flag, value in document.items():
        name = str(flag).replace("-", "_")
        if name not in hints:
            raise ManagerConfigError(f"--config {path}: unknown flag {flag}")
        try:
            found[name] = _value(hints[name], value)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise ManagerConfigError(f"--config {path}: {flag}: {error}") from None
    return found


def _value(kind: Any, value: Any) -> Any:
    if kind == Strings:
        if isinstance(value, Mapping):
            return tuple(f"{key}={_text(one)}" for key, one in value.items())
        return tuple(map(_text, value)) if isinstance(value, list) else tuple(_words(_text(value)))
    return boolean(_text(value)) if kind is bool else _READERS[kind](_text(value))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")] if text else []


def _shown(default: Any) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default).lower()


_READERS: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, Duration: duration}
_METAVARS = {int: "N", float: "X", Duration: "DURATION"}

# SPDX-License-Identifier: Apache-2.0
"""`kubeloop crd generate`: writes the CustomResourceDefinitions of the kinds in a program, for manifests and charts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kubeloop.api.generated.apiextensions_v1 import CustomResourceDefinition
from kubeloop.cli.program.output import JSON, YAML, add_output_flag, format_document
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.client.objects import apply_document
from kubeloop.runtime.crd.definition import CustomKind
from kubeloop.runtime.crd.schema import SchemaError

_EXAMPLES: Final = """Examples:
  # The definition of the CustomKind that website.py names WEBSITES, applied to a cluster
  kubeloop crd generate website:WEBSITES | kubectl apply -f -

  # Two definitions in one file of a chart
  kubeloop crd generate shop.kinds:ORDERS shop.kinds:CARTS --output-file charts/shop/crds/kinds.yaml
"""
_GENERATE: Final = "Write the CustomResourceDefinitions of CustomKinds as YAML or JSON"


class KindError(Exception):
    """Name that does not lead to a CustomKind; the message is one sentence for a user."""


class KindName(NamedTuple):
    """Module and name of a CustomKind."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the action of `crd` and its flags."""
    parser.epilog = _EXAMPLES
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    action = actions.add_parser("generate", help=_GENERATE, description=f"{_GENERATE}.", epilog=_EXAMPLES)
    about = "CustomKind as module:NAME; modules are found in the current directory and where Python finds them"
    action.add_argument("kinds", nargs="+", type=_kind_name, metavar="MODULE:KIND", help=about)
    action.add_argument("--output-file", type=Path, metavar="FILE", help="file to write (default: standard output)")
    add_output_flag(action)


def _kind_name(text: str) -> KindName:
    module, _, name = text.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), name)):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form module:KIND, such as website:WEBSITES")
    return KindName(module, name)


def run_crd(options: argparse.Namespace) -> int:
    """Write the definitions; returns the exit code."""
    sys.path.insert(0, "")  # as `python -m` does: the program of the kinds is often in the current directory
    try:
        separator = "" if options.output == JSON else "---\n"
        text = separator.join(definition_text(find_kind(name), options.output) for name in _distinct(options.kinds))
        if options.output_file is None:
            print(text, end="")
        else:
            options.output_file.write_text(text)
    except (KindError, OSError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    return 0


def _distinct(names: Sequence[KindName]) -> list[KindName]:
    return list(dict.fromkeys(names))


def find_kind(wanted: KindName) -> CustomKind[Any]:
    """Return the CustomKind of a name; raises KindError."""
    try:
        module = import_module(wanted.module)
    except Exception as error:  # whatever the user's module raises
        raise KindError(f"cannot import {wanted.module}: {type(error).__name__}: {error}") from error
    found = getattr(module, wanted.name, None)
    if isinstance(found, CustomKind):
        return found
    kinds = [name for name, value in vars(module).items() if isinstance(value, CustomKind)]
    what = "is not a CustomKind" if found is not None else "does not exist"
    raise KindError(f"{wanted} {what}; " + (f"there are: {', '.join(kinds)}" if kinds else "the module has none"))


def definition_text(kind: CustomKind[Any], output: str = "") -> str:
    """Return a kind's definition as JSON or, without a choice, as YAML; raises KindError if its class has no schema."""
    try:
        document = apply_document(kind.definition, resource_of_class(CustomResourceDefinition))
    except (SchemaError, ValueError) as error:
        raise KindError(f"{kind.name}: {error}") from error
    del document["status"]  # the server's
    return f"{format_document(msgspec.to_builtins(document, order='sorted'), output or YAML)}\n"

# SPDX-License-Identifier: Apache-2.0
"""Named formats: `format.dns1123Label().validate(x)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Any, ClassVar, Final

from kubeloop.api.cel.check.types import STRING, Type, list_of, opaque, optional_of
from kubeloop.api.cel.environment import Overload
from kubeloop.api.cel.library.declarations import REGEX_FACTOR, STRING_FACTOR, function, method
from kubeloop.api.cel.library.urls import UrlError, check_request_uri
from kubeloop.api.cel.values import NONE, Optional
from kubeloop.api.meta import name_rules
from kubeloop.api.structural.formats import FORMATS

FORMAT: Final = opaque("kubernetes.NamedFormat")


@dataclass(frozen=True, slots=True)
class CelFormat:
    """Named format. Its size is that of the pattern with which upstream computes costs."""

    name: str
    check: Callable[[str], list[str]] = field(compare=False)
    size: int = field(compare=False)
    cel_type: ClassVar[Type] = FORMAT


def _check_uri(text: str) -> list[str]:
    try:
        check_request_uri(text)
    except UrlError as error:
        return [str(error)]
    return []


def _checked_as(format: str, message: str) -> Callable[[str], list[str]]:
    is_well_formed = FORMATS[format]
    return lambda text: [] if is_well_formed(text) else [message]


_NAMED: Final = {
    "dns1123Label": CelFormat("DNS1123Label", name_rules.check_dns1123_label, 30),
    "dns1123Subdomain": CelFormat("DNS1123Subdomain", name_rules.check_dns1123_subdomain, 60),
    "dns1035Label": CelFormat("DNS1035Label", name_rules.check_dns1035_label, 30),
    "qualifiedName": CelFormat("QualifiedName", name_rules.check_qualified_name, 60),
    "dns1123LabelPrefix": CelFormat(
        "DNS1123LabelPrefix", partial(name_rules.check_generate_name, name_rules.check_dns1123_label), 30
    ),
    "dns1123SubdomainPrefix": CelFormat(
        "DNS1123SubdomainPrefix", partial(name_rules.check_generate_name, name_rules.check_dns1123_subdomain), 60
    ),
    "dns1035LabelPrefix": CelFormat(
        "DNS1035LabelPrefix", partial(name_rules.check_generate_name, name_rules.check_dns1035_label), 30
    ),
    "labelValue": CelFormat("LabelValue", name_rules.check_label_value, 40),
    "uri": CelFormat("URI", _check_uri, 1103),
    "uuid": CelFormat("uuid", _checked_as("uuid", "does not match the UUID format"), 81),
    "byte": CelFormat("byte", _checked_as("byte", "invalid base64"), 84),
    "date": CelFormat("date", _checked_as("date", "invalid date"), 171),
    "datetime": CelFormat("datetime", _checked_as("datetime", "invalid datetime"), 171),
}


def _named(name: str) -> Optional:
    return Optional(_NAMED[name]) if name in _NAMED else NONE


def _validated(form: CelFormat, text: str) -> Optional:
    problems = form.check(text)
    return Optional(problems) if problems else NONE


def _validating(args: tuple[Any, ...]) -> int:
    form: CelFormat = args[0]
    return ceil((1 + len(args[1])) * STRING_FACTOR) * ceil(form.size * REGEX_FACTOR)


FUNCTIONS: Final[dict[str, tuple[Overload, ...]]] = {
    "validate": (method("format-validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validated, _validating),),
    "format.named": (function("format-named", (STRING,), optional_of(FORMAT), _named),),
    **{
        f"format.{name}": (function(f"format.{name}", (), FORMAT, lambda form=form: form),)
        for name, form in _NAMED.items()
    },
}

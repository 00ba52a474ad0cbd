# SPDX-License-Identifier: Apache-2.0
"""Parsers of flag values: upstream's durations and booleans, ports and addresses."""

from __future__ import annotations

import argparse


def duration(text: str) -> float:
    """Parse a Go duration such as `5m0s` to seconds."""
    from kubeloop.api.scalars.duration import SECOND, DurationError, parse_duration

    try:
        nanoseconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if nanoseconds < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative")
    return nanoseconds / SECOND


def boolean(text: str) -> bool:
    """Parse a boolean in the spellings of Go's flags."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def port(text: str) -> int:
    """Parse a TCP port; 0 stands for any free one."""
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port between 0 and 65535")
    return int(text)


def address(text: str) -> str:
    """Parse an IP address."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def networks(text: str) -> tuple[str, ...]:
    """Parse one or two comma-separated networks such as 10.0.0.0/24."""
    import ipaddress

    try:
        found = [ipaddress.ip_network(part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if any(one.num_addresses < 4 for one in found):
        raise argparse.ArgumentTypeError(f"{text!r} is too small for a service range")
    if len(found) > 2 or len({one.version for one in found}) != len(found):
        raise argparse.ArgumentTypeError(f"{text!r} has more than one network of an IP family")
    return tuple(map(str, found))


def port_range(text: str) -> range:
    """Parse ports as `30000-32767`, or as first and number of further ones: `30000+2767`."""
    first, sign, last = text.partition("+" if "+" in text else "-")
    if not (first.isdecimal() and last.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of ports such as 30000-32767")
    end = int(first) + int(last) if sign == "+" else int(last)
    if not 0 < int(first) <= end <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of ports between 1 and 65535")
    return range(int(first), end + 1)


def non_negative_count(text: str) -> int:
    """Parse a whole number of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def positive_count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not non_negative_count(text):
        raise argparse.ArgumentTypeError("must be at least 1")
    return int(text)


def whole_number(text: str) -> int:
    """Parse a whole number, which may be negative."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def number(text: str) -> float:
    """Parse a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def duration_text(text: str) -> str:
    """Check a Go duration such as `5m0s`."""
    from kubeloop.api.scalars.duration import DurationError, parse_duration

    try:
        parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def comma_separated(text: str) -> tuple[str, ...]:
    """Parse comma-separated names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def key_value(text: str) -> tuple[str, str]:
    """Parse a key and a value, such as `team=a`; the value may contain further equals signs."""
    key, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"malformed pair, expect string=string: {text!r}")
    return key.strip(), value.strip()


def authorization_modes(text: str) -> tuple[str, ...]:
    """Parse comma-separated authorization modes."""
    from kubeloop.apiserver.authorization import MODES

    modes = comma_separated(text)
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or not modes:
        raise argparse.ArgumentTypeError(f"{text!r} has modes other than {', '.join(MODES)}")
    if len(set(modes)) != len(modes):
        raise argparse.ArgumentTypeError(f"{text!r} has a duplicate mode")
    return modes


def address_types(text: str) -> tuple[str, ...]:
    """Parse comma-separated node address types."""
    from kubeloop.apiserver.kubelet_client.kubelet_address import ADDRESS_TYPES

    types = comma_separated(text)
    if not types or not set(types) <= set(ADDRESS_TYPES):
        raise argparse.ArgumentTypeError(f"{text!r} has address types other than {', '.join(ADDRESS_TYPES)}")
    return types

# SPDX-License-Identifier: Apache-2.0
"""IP addresses as packed bytes, as labels of endpoints and pods, and as names of reverse zones."""

from __future__ import annotations

from socket import AF_INET, AF_INET6, inet_pton

from kubeloop.dns.wire.names import join_labels

_MAPPED = bytes(10) + b"\xff\xff"  # prefix of IPv4 addresses in IPv6 form
IPV4_REVERSE_ZONE = join_labels((b"in-addr", b"arpa"))
IPV6_REVERSE_ZONE = join_labels((b"ip6", b"arpa"))


def pack_address(text: str) -> bytes | None:
    """Return the bytes of an IP address, four for a mapped IPv4 address; None if the text is no address."""
    try:
        packed = inet_pton(AF_INET6 if ":" in text else AF_INET, text)
    except (OSError, ValueError):  # ValueError: a null character
        return None
    return packed[12:] if packed.startswith(_MAPPED) else packed


def endpoint_label(hostname: str, address: str) -> bytes:
    """Return the label of an endpoint: its hostname, or its address with dashes."""
    if hostname:
        return hostname.lower().encode()
    dashed = address.replace(".", "-").replace(":", "-").lower()
    return (f"{dashed}0" if dashed.endswith("-") else dashed).encode()


def pod_address(label: bytes) -> bytes | None:
    """Return the address in the name of a pod, such as 10-1-2-3; None if there is none."""
    text = label.decode("ascii", "replace")
    if text.count("-") == 3 and "--" not in text:
        return pack_address(text.replace("-", "."))
    return pack_address(text.replace("-", ":"))


def reverse_name(address: bytes) -> bytes:
    """Return the name of an address in its reverse zone."""
    if len(address) == 4:
        return join_labels(str(byte).encode() for byte in reversed(address))[:-1] + IPV4_REVERSE_ZONE
    digits = reversed(address.hex())
    return b"".join(b"\x01" + digit.encode() for digit in digits) + IPV6_REVERSE_ZONE

# SPDX-License-Identifier: Apache-2.0
"""Tests of the choice of a proxy and its exceptions."""

from __future__ import annotations

import pytest

from kubeloop.http.client.proxy import InvalidProxy, Proxy, parse_proxy, proxy_for

PROXY = {"HTTPS_PROXY": "http://me:s%40cret@proxy:3128"}


def test_proxy_of_the_kubeconfig_overrides_the_environment() -> None:
    assert proxy_for("https://a:6443", "http://other", PROXY) == Proxy("other", 80)
    assert proxy_for("https://a:6443", "", PROXY) == Proxy("proxy", 3128, "me", "s@cret")
    assert proxy_for("http://a:6443", "", PROXY) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_loopback_is_reached_without_a_proxy(host: str) -> None:
    assert proxy_for(f"https://{host}:6443", "", PROXY) is None


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("api.example.com", "example.com", True),
        ("example.com", "example.com", True),
        ("notexample.com", "example.com", False),
        ("example.com", ".example.com", False),
        ("api.example.com", "x, *.example.com", True),
        ("api.example.com", "example.com:6443", True),
        ("api.example.com", "example.com:443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "10.1.2.4,2.3", False),
        ("a", "10.0.0.0/8", False),
        ("[fd00::1]", "fd00::/8", True),
        ("[fd00::1]", "[fd00::1]:6443", True),
        ("anything", "*", True),
        ("anything", "no/network", False),
    ],
)
def test_no_proxy_supports_hosts_domains_ports_and_networks(host: str, exceptions: str, direct: bool) -> None:
    found = proxy_for(f"https://{host}:6443", "", {**PROXY, "NO_PROXY": exceptions})
    assert (found is None) == direct


@pytest.mark.parametrize("text", ["socks5://a:1", "https://a", "http://", "http://a:port"])
def test_unusable_proxy_is_reported(text: str) -> None:
    with pytest.raises(InvalidProxy, match="the proxy address"):
        parse_proxy(text)

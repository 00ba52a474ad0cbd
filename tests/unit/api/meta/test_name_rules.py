# SPDX-License-Identifier: Apache-2.0
"""Tests of name validation with upstream's messages."""

import pytest

from kubeloop.api.meta import name_rules
from kubeloop.api.meta.field_path import FieldPath

DNS_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
KEY_FORM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("check", "value", "messages"),
    [
        (name_rules.check_dns1123_label, "my-name", []),
        (name_rules.check_dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (name_rules.check_dns1123_label, "a.b", ["must not contain dots"]),
        (name_rules.check_dns1123_label, "A_b", [DNS_LABEL]),
        (name_rules.check_dns1123_label, "a\n", [DNS_LABEL]),
        (name_rules.check_dns1123_subdomain, "a.b-c", []),
        (name_rules.check_dns1123_subdomain, "a..b", [DNS_SUBDOMAIN]),
        (name_rules.check_dns1123_subdomain, "A" * 254, ["must be no more than 253 characters", DNS_SUBDOMAIN]),
        (name_rules.check_dns1123_subdomain_with_underscore, "_a_b.c", []),
        (name_rules.check_dns1035_label, "a-1", []),
        (name_rules.check_wildcard_dns1123_subdomain, "*.a.b", []),
        (name_rules.check_qualified_name, "example.com/My_Name", []),
        (name_rules.check_qualified_name, "", ["name part must be non-empty", f"name part {KEY_FORM}"]),
        (name_rules.check_qualified_name, "/x", ["prefix part must be non-empty"]),
        (name_rules.check_qualified_name, "A/x", [f"prefix part {DNS_SUBDOMAIN}"]),
        (name_rules.check_qualified_name, "a" * 254 + "/x", ["prefix part must be no more than 253 bytes"]),
        (name_rules.check_qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (
            name_rules.check_qualified_name,
            "a/b/c",
            [f"a valid label key {KEY_FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
        (name_rules.check_label_value, "", []),
        (name_rules.check_label_value, "a" * 64, ["must be no more than 63 bytes"]),
        (name_rules.check_label_value, "é" * 32, ["must be no more than 63 bytes", LABEL_VALUE]),
        (name_rules.check_port_name, "http-1", []),
        (
            name_rules.check_port_name,
            "-A--",
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
        (name_rules.check_port_name, "a" * 16, ["must be no more than 15 characters"]),
        (name_rules.check_env_var_name, "MY_ENV.x-1", []),
        (name_rules.check_env_var_name, "..x", ["must not start with '..'"]),
        (name_rules.check_relaxed_env_var_name, "1 a%", []),
        (name_rules.check_relaxed_env_var_name, "", ["environment variable name must be non-empty"]),
        (
            name_rules.check_relaxed_env_var_name,
            "a=b",
            ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
        ),
        (name_rules.check_config_map_key, "k.y", []),
        (name_rules.check_config_map_key, "..", ["must not be '..'"]),
        (
            name_rules.check_config_map_key,
            "a b",
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
                "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ],
        ),
        (name_rules.check_path_segment_name, "a:b", []),
        (name_rules.check_path_segment_name, "..", ["may not be '..'"]),
        (name_rules.check_path_segment_name, "a/%", ["may not contain '/'", "may not contain '%'"]),
        (name_rules.check_percent, "5%", []),
        (
            name_rules.check_percent,
            "5",
            [
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        ),
        (name_rules.check_c_identifier, "_a1", []),
        (name_rules.check_http_header_name, "X-A", []),
    ],
)
def test_each_check_lists_upstreams_messages(check: name_rules.Check, value: str, messages: list[str]) -> None:
    assert check(value) == messages


@pytest.mark.parametrize(
    "check",
    [
        name_rules.check_dns1035_label,
        name_rules.check_wildcard_dns1123_subdomain,
        name_rules.check_c_identifier,
        name_rules.check_http_header_name,
        name_rules.check_env_var_name,
        name_rules.check_dns1123_subdomain_with_underscore,
    ],
)
def test_each_pattern_rejects_mismatches(check: name_rules.Check) -> None:
    (message,) = check("9 é")
    assert "regex used for validation is '" in message


def test_a_generate_name_may_end_in_a_dash() -> None:
    assert name_rules.check_generate_name(name_rules.check_dns1123_label, "web-") == []
    assert name_rules.check_generate_name(name_rules.check_dns1123_label, "-") == [DNS_LABEL]


def test_numbers_have_their_ranges() -> None:
    assert name_rules.check_port_number(65535) == []
    assert name_rules.check_port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert name_rules.check_user_id(-1) == ["must be between 0 and 2147483647, inclusive"]


def test_qualified_names_need_enough_segments() -> None:
    path = FieldPath("p")
    assert name_rules.validate_fully_qualified_name(path, "a.b.c") == []
    assert [error.message() for error in name_rules.validate_fully_qualified_name(path, "a.b")] == [
        'p: Invalid value: "a.b": should be a domain with at least three segments separated by dots'
    ]
    assert [error.message() for error in name_rules.validate_fully_qualified_name(path, "")] == ["p: Required value"]
    assert name_rules.validate_fully_qualified_domain_name(path, "a.b.") == []
    assert [error.message() for error in name_rules.validate_fully_qualified_domain_name(path, "a")] == [
        'p: Invalid value: "a": should be a domain with at least two segments separated by dots'
    ]


def test_domain_prefixed_texts_require_a_domain() -> None:
    path = FieldPath("p")
    assert name_rules.validate_domain_prefixed_path(path, "a.b/c/d") == []
    assert name_rules.validate_domain_prefixed_key(path, "a.b/c") == []
    assert [error.message() for error in name_rules.validate_domain_prefixed_path(path, "a")] == [
        'p: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")'
    ]
    assert [error.message() for error in name_rules.validate_domain_prefixed_key(path, "a")] == [
        'p: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")'
    ]

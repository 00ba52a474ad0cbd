"""Name checks say what upstream says."""

import pytest

from kubeloop.api import names
from kubeloop.api.fields import Path

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
        (names.check_dns1123_label, "my-name", []),
        (names.check_dns1123_label, "a" * 64, ["must be no more than 63 characters"]),
        (names.check_dns1123_label, "a.b", ["must not contain dots"]),
        (names.check_dns1123_label, "A_b", [DNS_LABEL]),
        (names.check_dns1123_label, "a\n", [DNS_LABEL]),
        (names.check_dns1123_subdomain, "a.b-c", []),
        (names.check_dns1123_subdomain, "a..b", [DNS_SUBDOMAIN]),
        (names.check_dns1123_subdomain, "A" * 254, ["must be no more than 253 characters", DNS_SUBDOMAIN]),
        (names.check_dns1123_subdomain_with_underscore, "_a_b.c", []),
        (names.check_dns1035_label, "a-1", []),
        (names.check_wildcard_dns1123_subdomain, "*.a.b", []),
        (names.check_qualified_name, "example.com/My_Name", []),
        (names.check_qualified_name, "", ["name part must be non-empty", f"name part {KEY_FORM}"]),
        (names.check_qualified_name, "/x", ["prefix part must be non-empty"]),
        (names.check_qualified_name, "A/x", [f"prefix part {DNS_SUBDOMAIN}"]),
        (names.check_qualified_name, "a" * 254 + "/x", ["prefix part must be no more than 253 bytes"]),
        (names.check_qualified_name, "a" * 64, ["name part must be no more than 63 bytes"]),
        (
            names.check_qualified_name,
            "a/b/c",
            [f"a valid label key {KEY_FORM} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
        (names.check_label_value, "", []),
        (names.check_label_value, "a" * 64, ["must be no more than 63 bytes"]),
        (names.check_label_value, "é" * 32, ["must be no more than 63 bytes", LABEL_VALUE]),
        (names.check_port_name, "http-1", []),
        (
            names.check_port_name,
            "-A--",
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ],
        ),
        (names.check_port_name, "a" * 16, ["must be no more than 15 characters"]),
        (names.check_env_var_name, "MY_ENV.x-1", []),
        (names.check_env_var_name, "..x", ["must not start with '..'"]),
        (names.check_relaxed_env_var_name, "1 a%", []),
        (names.check_relaxed_env_var_name, "", ["environment variable name must be non-empty"]),
        (
            names.check_relaxed_env_var_name,
            "a=b",
            ["a valid environment variable name must consist only of printable ASCII characters other than '='"],
        ),
        (names.check_config_map_key, "k.y", []),
        (names.check_config_map_key, "..", ["must not be '..'"]),
        (
            names.check_config_map_key,
            "a b",
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
                "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ],
        ),
        (names.check_path_segment_name, "a:b", []),
        (names.check_path_segment_name, "..", ["may not be '..'"]),
        (names.check_path_segment_name, "a/%", ["may not contain '/'", "may not contain '%'"]),
        (names.check_percent, "5%", []),
        (
            names.check_percent,
            "5",
            [
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            ],
        ),
        (names.check_c_identifier, "_a1", []),
        (names.check_http_header_name, "X-A", []),
    ],
)
def test_each_check_lists_upstreams_messages(check: names.Check, value: str, messages: list[str]) -> None:
    assert check(value) == messages


@pytest.mark.parametrize(
    "check",
    [
        names.check_dns1035_label,
        names.check_wildcard_dns1123_subdomain,
        names.check_c_identifier,
        names.check_http_header_name,
        names.check_env_var_name,
        names.check_dns1123_subdomain_with_underscore,
    ],
)
def test_each_pattern_refuses_what_does_not_fit(check: names.Check) -> None:
    (message,) = check("9 é")
    assert "regex used for validation is '" in message


def test_a_generate_name_may_end_in_a_dash() -> None:
    assert names.for_prefix(names.check_dns1123_label, "web-") == []
    assert names.for_prefix(names.check_dns1123_label, "-") == [DNS_LABEL]


def test_numbers_have_their_ranges() -> None:
    assert names.check_port_number(65535) == []
    assert names.check_port_number(0) == ["must be between 1 and 65535, inclusive"]
    assert names.check_user_id(-1) == ["must be between 0 and 2147483647, inclusive"]


def test_qualified_names_need_enough_segments() -> None:
    path = Path("p")
    assert names.validate_fully_qualified_name(path, "a.b.c") == []
    assert [error.message() for error in names.validate_fully_qualified_name(path, "a.b")] == [
        'p: Invalid value: "a.b": should be a domain with at least three segments separated by dots'
    ]
    assert [error.message() for error in names.validate_fully_qualified_name(path, "")] == ["p: Required value"]
    assert names.validate_fully_qualified_domain_name(path, "a.b.") == []
    assert [error.message() for error in names.validate_fully_qualified_domain_name(path, "a")] == [
        'p: Invalid value: "a": should be a domain with at least two segments separated by dots'
    ]


def test_domain_prefixed_texts_need_their_domain() -> None:
    path = Path("p")
    assert names.validate_domain_prefixed_path(path, "a.b/c/d") == []
    assert names.validate_domain_prefixed_key(path, "a.b/c") == []
    assert [error.message() for error in names.validate_domain_prefixed_path(path, "a")] == [
        'p: Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")'
    ]
    assert [error.message() for error in names.validate_domain_prefixed_key(path, "a")] == [
        'p: Invalid value: "a": must be a domain-prefixed key (such as "acme.io/foo")'
    ]

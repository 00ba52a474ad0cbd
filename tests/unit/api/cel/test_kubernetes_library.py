# SPDX-License-Identifier: Apache-2.0
"""Kubernetes' own types and functions: quantities, addresses, URLs, formats, versions, lists; checks of literals."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.cel.check.types import DYN, INT, STRING, list_of, map_of
from kubeloop.api.cel.library.authorizer import AUTHORIZER, CelAuthorizer, CelDecision, PathCheck, ResourceCheck
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import compile_expression
from kubeloop.api.cel.values import CelError

ENVIRONMENT = kubernetes_environment().extend(
    {"any": DYN, "texts": list_of(STRING), "i": INT, "map": map_of(STRING, INT), "authorizer": AUTHORIZER}
)
DATA: dict[str, Any] = {"any": [1, "a"], "texts": ["b", "a", "c"], "i": 3, "map": {"a": 1, "b": 2}}


def value_of(text: str, **more: Any) -> Any:
    return compile_expression(text, ENVIRONMENT).evaluate({**DATA, **more})[0]


@pytest.mark.parametrize(
    "text",
    [
        # Quantities.
        "quantity('1.5Gi').isGreaterThan(quantity('1Gi'))",
        "quantity('50k').add(quantity('20')) == quantity('50.02k')",
        "quantity('50k').sub(20).compareTo(quantity('49980')) == 0",
        "quantity('200M') == quantity('0.2G')",
        "isQuantity('1Ki') && !isQuantity('1X')",
        "quantity('5').isInteger() && !quantity('5m').isInteger()",
        "quantity('5').asInteger() == 5 && quantity('2.5').asApproximateFloat() == 2.5",
        "sign(quantity('-1')) == -1 && quantity('1').isLessThan(quantity('2'))",
        # Addresses and networks.
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6",
        "isIP('10.0.0.1') && !isIP('10.0.0.01') && !isIP('fe80::1%eth0') && !isIP('::ffff:1.2.3.4')",
        "ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')",
        "ip('224.0.0.5').isLinkLocalMulticast() && ip('169.254.1.1').isLinkLocalUnicast()",
        "ip('10.1.2.3').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast()",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))",
        "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('10.1.2.3/8') != cidr('10.0.0.0/8')",
        "cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('::/0').prefixLength() == 0",
        "string(cidr('10.0.0.0/8')) == '10.0.0.0/8' && type(ip('1.1.1.1')) == net.IP",
        "isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0') && !isCIDR('10.0.0.0/08')",
        # URLs.
        "url('https://user@example.com:80/path%20x?a=1&a=2&b=#f').getHost() == 'example.com:80'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://example.com/a b').getEscapedPath() == '/a%20b' && url('/only/path').getScheme() == ''",
        "url('https://e.com/?a=1&a=2').getQuery() == {'a': ['1', '2']}",
        "isURL('https://example.com') && isURL('/path') && !isURL('path') && !isURL('https://a:b:c/')",
        # Named formats.
        "!format.dns1123Label().validate('my-name').hasValue()",
        "format.dns1123Label().validate('My_Name').value().size() == 1",
        "!format.dns1035LabelPrefix().validate('my-prefix-').hasValue()",
        "format.uuid().validate('x').value() == ['does not match the UUID format']",
        "format.named('date').value() == format.date() && !format.named('nothing').hasValue()",
        # Versions.
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.0.0-rc.1').compareTo(semver('1.0.0')) == -1",
        "semver('v1', true).major() == 1 && semver('1.02', true).minor() == 2 && semver('1.2.3+x') == semver('1.2.3')",
        "semver('1.0.0-alpha.2').isGreaterThan(semver('1.0.0-alpha.1')) && semver('0.0.7').patch() == 7",
        "isSemver('1.2.3') && !isSemver('1.2') && !isSemver('01.2.3') && isSemver('v1.2', true)",
        # Lists, sets, and loops over two variables.
        "texts.isSorted() == false && texts.sort() == ['a', 'b', 'c'] && texts.max() == 'c'",
        "[3, 1, 2].sortBy(x, -x) == [3, 2, 1] && texts.sortBy(x, x == 'c' ? 0 : 1)[0] == 'c'",
        "[1, 2, 3].sum() == 6 && [1, 1, 2].distinct() == [1, 2] && lists.range(3) == [0, 1, 2]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3] && [1, 2].reverse() == [2, 1]",
        "texts.indexOf('a') == 1 && any.includes('a') && sets.contains([1, 2], [2]) && !sets.intersects([1], [2])",
        "map.all(k, v, v > 0) && map.transformMap(k, v, v * 2) == {'a': 2, 'b': 4}",
        "map.transformList(k, v, v > 1, k) == ['b'] && map.transformMapEntry(k, v, {k + 'x': v}).size() == 2",
        # Texts.
        "'abc123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "'%s has %d of %.1f, %e'.format(['x', 3, 1.25, 1234.5]) == 'x has 3 of 1.2, 1.234500×10⁰³'",
        "'a.b'.split('.').join('/') == 'a/b' && ' x '.trim() == 'x'",
        "string(timestamp('2011-08-18T19:03:37.01+01:00')) == '2011-08-18T19:03:37.01+01:00'",
        # Optionals.
        "optional.of(3).optMap(x, x + 1).value() == 4 && !optional.none().optMap(x, 1).hasValue()",
        "map[?'z'].orValue(7) == 7 && {'a': {'b': 1}}.?a.?b.value() == 1",
        "!optional.ofNonZeroValue(duration('0s')).hasValue()",
    ],
)  # fmt: skip
def test_expression_is_true(text: str) -> None:
    assert value_of(text) is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("quantity('x') == quantity('1')", "quantities must match the regular expression"),
        ("quantity('5m').asInteger() == 1", "cannot convert value to integer"),
        ("ip('1.2.3') == ip('1.2.3.4')", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("ip('1.2.3.256') == ip('1.2.3.4')", "IPv4 field has value >255"),
        ("ip('fe80::1%x') == ip('::')", 'IP address "fe80::1%x" with zone value is not allowed'),
        ("cidr('10.0.0.0/40') == cidr('::/0')", "prefix length out of range"),
        ("url('x') == url('/')", 'URL parse error during conversion from string: parse "x": invalid URI for request'),
        ("semver('1') == semver('1.0.0')", "No Major.Minor.Patch elements found"),
        ("[1, 2].slice(0, 5) == []", "cannot slice(0, 5), list is length 2"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("map['z'] == 1", "no such key: z"),
    ],
)
def test_evaluation_fails_with_upstreams_message(text: str, message: str) -> None:
    with pytest.raises(CelError) as failure:
        value_of(text)
    assert message in str(failure.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("duration('x') == duration('1s')", "1:10: invalid duration argument"),
        ("timestamp('x') == timestamp(1)", "1:11: invalid timestamp argument"),
        ("timestamp(-62135596801) == timestamp(1)", "1:11: invalid timestamp argument"),
        ("'a'.matches('(')", "1:13: invalid matches argument"),
        ("[1, 'a'] == []", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'} == {}", "1:15: expected type 'int' but found 'string'"),
        ("[any, 1] == []", "1:7: expected type 'dyn' but found 'int'"),
        ("self.", "1:6: Syntax error: no viable alternative at input '.'"),
        ("{1: 2}.sortBy(x, x)", "1:1: sortBy can only be applied to a list"),
        ("9" * 5000, "1:1: invalid int literal"),
        ("1e999", "1:1: invalid double literal"),
    ],
)
def test_literals_are_checked_at_compile_time(text: str, problem: str) -> None:
    with pytest.raises(CompileError) as failure:
        compile_expression(text, ENVIRONMENT)
    assert str(failure.value).startswith(f"ERROR: <input>:{problem}")


def test_format_supports_all_types() -> None:
    assert value_of("'%s %d %s'.format(['a', 1, [1, 2]])") == "a 1 [1, 2]"


def test_literal_pattern_is_compiled_in_advance() -> None:
    with pytest.raises(CelError, match=r"error parsing regexp: unexpected \)"):
        compile_expression("'a'.find(')') == ''", ENVIRONMENT)


class TestAuthorizer:
    def decide(self, asked: PathCheck | ResourceCheck, verb: str) -> CelDecision:
        self.asked = (asked, verb)
        return CelDecision(allowed=verb == "get", reason="because", error="" if verb == "get" else "no")

    def ask(self, text: str) -> Any:
        return value_of(text, authorizer=CelAuthorizer(self.decide))

    def test_authorizer_returns_the_decision(self) -> None:
        assert self.ask("authorizer.path('/healthz').check('get').allowed()") is True
        assert self.ask("authorizer.path('/healthz').check('put').error()") == "no"
        assert self.ask("authorizer.path('/healthz').check('put').errored()") is True
        assert self.ask("authorizer.path('/healthz').check('get').reason()") == "because"

    def test_authorizer_checks_resources(self) -> None:
        check = "authorizer.serviceAccount('ns', 'sa').group('apps').resource('deployments').subresource('scale')"
        narrowed = ".namespace('shop').name('web').labelSelector('a=b').fieldSelector('x=y').check('get').allowed()"
        assert self.ask(check + narrowed) is True
        asked, verb = self.asked
        assert isinstance(asked, ResourceCheck)
        assert (asked.group, asked.resource, asked.subresource, verb) == ("apps", "deployments", "scale", "get")
        assert (asked.namespace, asked.name, asked.label_selector, asked.field_selector) == (
            "shop",
            "web",
            "a=b",
            "x=y",
        )
        assert asked.authorizer.service_account == ("ns", "sa")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("authorizer.path(' ').check('get').allowed()", "path must not be empty"),
            ("authorizer.group('').resource('').check('get').allowed()", "resource must not be empty"),
            ("authorizer.serviceAccount('Ns', 'sa').path('/').check('get').allowed()", "service account namespace"),
        ],
    )
    def test_authorizer_rejects_invalid_checks(self, text: str, message: str) -> None:
        with pytest.raises(CelError, match=message):
            self.ask(text)


def test_an_invalid_address_is_no_argument_of_a_network() -> None:
    """As kube-apiserver words it; of an invalid network it names the fault."""
    with pytest.raises(CelError, match=r"^no such overload$"):
        value_of("cidr('10.0.0.0/8').containsIP('x')")
    with pytest.raises(CelError, match="parse error"):
        value_of("cidr('10.0.0.0/8').containsCIDR('x')")

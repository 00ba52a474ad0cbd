# SPDX-License-Identifier: Apache-2.0
"""FlowSchemas and PriorityLevelConfigurations, decoded from stored bytes without their full types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubeloop.store import Record

EXEMPT, CATCH_ALL = "exempt", "catch-all"
_ANYBODY = ("system:unauthenticated", "system:authenticated")
_EVERY = ("*",)


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    pass


class FlowObjectMeta(_Camel, frozen=True):
    """Name and UID of an object."""

    name: str = ""
    uid: str = ""


class NameReference(_Camel, frozen=True):
    """Reference by name."""

    name: str = ""
    namespace: str = ""


class FlowSubject(_Camel, frozen=True):
    """Subject of a rule: one of the three, by kind."""

    kind: str = ""
    user: NameReference | None = None
    group: NameReference | None = None
    service_account: NameReference | None = None


class FlowResourceRule(_Camel, frozen=True):
    """Rule for resource requests."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    cluster_scope: bool = False
    namespaces: tuple[str, ...] = ()


class FlowNonResourceRule(_Camel, frozen=True):
    """Rule for non-resource requests."""

    verbs: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class FlowRules(_Camel, frozen=True):
    """Any of the subjects with any of the rules (PolicyRulesWithSubjects)."""

    subjects: tuple[FlowSubject, ...] = ()
    resource_rules: tuple[FlowResourceRule, ...] = ()
    non_resource_rules: tuple[FlowNonResourceRule, ...] = ()


class DistinguisherMethod(_Camel, frozen=True):
    """Flow distinguisher method."""

    type: str = ""


class FlowSchemaSpecConfig(_Camel, frozen=True):
    """Spec of a FlowSchema."""

    priority_level_configuration: NameReference = NameReference()
    matching_precedence: int = 1000
    distinguisher_method: DistinguisherMethod | None = None
    rules: tuple[FlowRules, ...] = ()


class FlowSchemaConfig(_Camel, frozen=True):
    """FlowSchema."""

    metadata: FlowObjectMeta = FlowObjectMeta()
    spec: FlowSchemaSpecConfig = FlowSchemaSpecConfig()

    @property
    def level(self) -> str:
        """Name of the priority level."""
        return self.spec.priority_level_configuration.name


class QueuingConfig(_Camel, frozen=True):
    """Number and length of queues, and the hand size of a flow."""

    queues: int = 64
    hand_size: int = 8
    queue_length_limit: int = 50


class LevelLimitResponse(_Camel, frozen=True):
    """Handling of requests without a free seat: Queue or Reject."""

    type: str = ""
    queuing: QueuingConfig | None = None


class LimitedLevel(_Camel, frozen=True):
    """Limited priority level: shares, and percentages that may be lent and borrowed."""

    nominal_concurrency_shares: int | None = 30
    lendable_percent: int | None = 0
    borrowing_limit_percent: int | None = None
    limit_response: LevelLimitResponse = LevelLimitResponse()


class ExemptLevel(_Camel, frozen=True):
    """Exempt priority level: never waits; its unused seats may be lent."""

    nominal_concurrency_shares: int | None = 0
    lendable_percent: int | None = 0


class PriorityLevelSpec(_Camel, frozen=True):
    """Spec of a priority level: one of the two, by type."""

    type: str = "Limited"
    limited: LimitedLevel | None = None
    exempt: ExemptLevel | None = None


class PriorityLevelConfig(_Camel, frozen=True):
    """PriorityLevelConfiguration."""

    metadata: FlowObjectMeta = FlowObjectMeta()
    spec: PriorityLevelSpec = PriorityLevelSpec()

    @property
    def is_exempt(self) -> bool:
        """True if the level is exempt from limits."""
        return self.spec.type == "Exempt"

    @property
    def shares(self) -> int:
        """Nominal concurrency shares."""
        found = self.spec.exempt if self.is_exempt else self.spec.limited
        return (found.nominal_concurrency_shares if found is not None else None) or 0

    @property
    def lendable_percent(self) -> int:
        """Percentage of the nominal seats that may be lent."""
        found = self.spec.exempt if self.is_exempt else self.spec.limited
        return (found.lendable_percent if found is not None else None) or 0

    @property
    def borrowing_percent(self) -> int | None:
        """Borrowing limit in percent of the nominal seats; None means unlimited."""
        return None if self.spec.limited is None else self.spec.limited.borrowing_limit_percent

    @property
    def queuing(self) -> QueuingConfig | None:
        """Queuing configuration; None if requests without a free seat are rejected."""
        limited = self.spec.limited
        if limited is None or limited.limit_response.type != "Queue":
            return None
        return limited.limit_response.queuing or QueuingConfig()


_SCHEMA, _LEVEL = msgspec.json.Decoder(FlowSchemaConfig), msgspec.json.Decoder(PriorityLevelConfig)


def read_schemas(records: Iterable[Record]) -> list[FlowSchemaConfig]:
    """Decode the stored FlowSchemas, in matching order, without the mandatory ones that may be missing."""
    return sorted(
        (_SCHEMA.decode(record.value) for record in records),
        key=lambda one: (one.spec.matching_precedence, one.metadata.name),
    )


def read_levels(records: Iterable[Record]) -> dict[str, PriorityLevelConfig]:
    """Decode the stored priority levels, by name, with the mandatory ones added."""
    found = {one.metadata.name: one for one in (_LEVEL.decode(record.value) for record in records)}
    return {EXEMPT: _MANDATORY_EXEMPT, CATCH_ALL: _MANDATORY_CATCH_ALL} | found


def with_mandatory_schemas(schemas: Iterable[FlowSchemaConfig], levels: Iterable[str]) -> list[FlowSchemaConfig]:
    """Return the schemas whose level exists, with the mandatory exempt and catch-all ones added."""
    known = set(levels)
    found = [one for one in schemas if one.level in known]
    names = {one.metadata.name for one in found}
    first = [] if EXEMPT in names else [_EXEMPT_SCHEMA]
    return [*first, *found, *([] if CATCH_ALL in names else [_CATCH_ALL_SCHEMA])]


def _schema(level: str, precedence: int, groups: tuple[str, ...], told_apart: str = "") -> FlowSchemaConfig:
    everything: Any = FlowResourceRule(_EVERY, _EVERY, _EVERY, True, _EVERY)
    subjects = tuple(FlowSubject("Group", group=NameReference(group)) for group in groups)
    rules = FlowRules(subjects, (everything,), (FlowNonResourceRule(_EVERY, _EVERY),))
    distinguisher = DistinguisherMethod(told_apart) if told_apart else None
    return FlowSchemaConfig(
        FlowObjectMeta(level), FlowSchemaSpecConfig(NameReference(level), precedence, distinguisher, (rules,))
    )


_MANDATORY_EXEMPT = PriorityLevelConfig(FlowObjectMeta(EXEMPT), PriorityLevelSpec("Exempt", exempt=ExemptLevel()))
_MANDATORY_CATCH_ALL = PriorityLevelConfig(
    FlowObjectMeta(CATCH_ALL), PriorityLevelSpec(limited=LimitedLevel(5, 0, None, LevelLimitResponse("Reject")))
)
_EXEMPT_SCHEMA = _schema(EXEMPT, 1, ("system:masters",))
_CATCH_ALL_SCHEMA = _schema(CATCH_ALL, 10000, _ANYBODY, "ByUser")

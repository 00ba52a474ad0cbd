# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors of lists and watches, evaluated over stored bytes.

Only the fields that a selector reads are decoded; they are cached per object until the object changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.api.field_selectors import FieldSelector, parse_field_selector
from kubeloop.api.kinds import Resource
from kubeloop.api.selectors import LabelSelector, SelectorError, parse_label_selector
from kubeloop.store import Record

_NAMES = ("metadata.name", "metadata.namespace")
_REGARDING = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

# Selectable fields of a kind besides its name and namespace.
_FIELDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "nodes"): ("spec.unschedulable",),
    ("", "replicationcontrollers"): ("status.replicas",),
    ("", "namespaces"): ("status.phase",),
    ("", "secrets"): ("type",),
    ("", "services"): ("spec.clusterIP", "spec.type"),
    ("", "events"): (
        *(f"involvedObject.{field}" for field in _REGARDING),
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    ("events.k8s.io", "events"): (
        *(f"regarding.{field}" for field in _REGARDING),
        "reason",
        "reportingController",
        "type",
    ),
    ("batch", "jobs"): ("status.successful",),
    ("certificates.k8s.io", "certificatesigningrequests"): ("spec.signerName",),
    ("certificates.k8s.io", "clustertrustbundles"): ("spec.signerName",),
    ("certificates.k8s.io", "podcertificaterequests"): ("spec.signerName", "spec.podName", "spec.nodeName"),
    ("resource.k8s.io", "resourceslices"): ("spec.nodeName", "spec.driver", "spec.pool.name"),
}
# Names of stored fields that differ from the selector's name.
_STORED_NAMES = {
    "spec.host": "spec.nodeName",
    "status.successful": "status.succeeded",
    "reportingController": "reportingComponent",
    **{f"regarding.{field}": f"involvedObject.{field}" for field in _REGARDING},
}
# Values of absent fields, if not the empty string.
_ZERO = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.succeeded": "0",
}


class _Labelled(msgspec.Struct):
    labels: dict[str, str] = {}


class _OnlyLabels(msgspec.Struct):
    metadata: _Labelled


_LABELS = msgspec.json.Decoder(_OnlyLabels)
_ANY = msgspec.json.Decoder()


# Maximum number of requirements in a selector: every object, and every event of a watch, is tested against all.
_MAX_REQUIREMENTS = 1_000


class ObjectSelector:
    """Parsed label and field selector; `exact_name` is set if it can match one object only."""

    __slots__ = ("_field_cache", "exact_name", "fields", "is_empty", "labels", "namespace")

    def __init__(self, labels: LabelSelector | None, fields: FieldSelector | None, memory: SelectorFieldCache) -> None:
        self.labels = labels
        self.fields = fields
        self._field_cache = memory
        self.is_empty = labels is None and fields is None
        self.exact_name = fields.requires_exact_match("metadata.name") if fields else None
        self.namespace = fields.requires_exact_match("metadata.namespace") if fields else None

    @property
    def size(self) -> int:
        """Number of requirements."""
        labels = len(self.labels.requirements) if self.labels is not None else 0
        return labels + (len(self.fields.requirements) if self.fields is not None else 0)

    def matches(self, record: Record) -> bool:
        """Return True if a stored object matches both selectors."""
        if self.labels is not None and not self.labels.matches(self._field_cache.labels(record)):
            return False
        return self.fields is None or self.fields.matches(self._field_cache.fields(record).__getitem__)

    def select(self, records: Iterable[Record]) -> Iterator[Record]:
        """Yield the stored objects that match both selectors."""
        labels = self.labels
        if labels is None or self.fields is not None:
            yield from filter(self.matches, records)
            return
        known, matches = self._field_cache.known_labels, labels.matches
        for record in records:
            found = known.get(record.key)
            is_current = found is not None and found[0] == record.mod_revision
            if matches(found[1] if found is not None and is_current else self._field_cache.labels(record)):
                yield record


class SelectorFieldCache:
    """Cache of the labels and selectable fields of one resource's objects, decoded at most once per change."""

    def __init__(self, resource: Resource, selectable: tuple[str, ...] = ()) -> None:
        """Set up the cache; custom resources pass their selectable fields, others have a table."""
        self._resource = resource
        self.known_labels: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._fields: dict[str, tuple[int, Mapping[str, str]]] = {}
        own = _FIELDS.get((resource.group, resource.plural), ())
        names = selectable or (*_names_of(resource), *own)
        self._supported = {name: name if selectable else _STORED_NAMES.get(name, name) for name in names}
        self._has_own = bool(selectable or own)
        self.everything = ObjectSelector(None, None, self)

    def parse(self, label_text: str, field_text: str) -> ObjectSelector:
        """Parse both selectors; raises BadRequest with upstream's message. `check_fields` is up to the caller."""
        try:
            labels = parse_label_selector(label_text) if label_text else None
            fields = parse_field_selector(field_text) if field_text else None
        except SelectorError as error:
            raise errors.bad_request(str(error)) from None
        selector = ObjectSelector(
            labels if labels is not None and not labels.is_empty else None,
            fields if fields is not None and fields.requirements else None,
            self,
        )
        if selector.size > _MAX_REQUIREMENTS:
            raise errors.bad_request(
                f"too many requirements in the selectors: {selector.size}: must have at most {_MAX_REQUIREMENTS}"
            )
        return selector

    def check_fields(self, field_text: str) -> None:
        """Raise BadRequest for a field of a valid selector that the resource does not select by."""
        for requirement in parse_field_selector(field_text).requirements if field_text else ():
            self._check(requirement.field)

    def _check(self, field: str) -> None:
        if field in self._supported:
            return
        if self._resource.plural == "jobs" and not self._resource.is_custom:
            raise errors.bad_request(f'field label "{field}" not supported for Job')
        if self._resource.plural == "resourceslices" and not self._resource.is_custom:
            kind = f"{self._resource.group_version}, Kind={self._resource.kind}"
            raise errors.bad_request(f"field label not supported for {kind}: {field}")
        if self._has_own:
            raise errors.bad_request(f"field label not supported: {field}")
        raise errors.bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')

    def labels(self, record: Record) -> Mapping[str, str]:
        """Return the labels of a stored object."""
        return self._cached(self.known_labels, record, _labels_of)

    def fields(self, record: Record) -> Mapping[str, str]:
        """Return the selectable fields of a stored object, by name."""
        return self._cached(self._fields, record, self._fields_of)

    def _cached(
        self,
        known: dict[str, tuple[int, Mapping[str, str]]],
        record: Record,
        read: Callable[[Record], Mapping[str, str]],
    ) -> Mapping[str, str]:
        found = known.get(record.key)
        if found is not None and found[0] == record.mod_revision:
            return found[1]
        value = read(record)
        known[record.key] = (record.mod_revision, value)
        return value

    def forget(self, key: str) -> None:
        """Drop the entries of a deleted object."""
        self.known_labels.pop(key, None)
        self._fields.pop(key, None)

    def _fields_of(self, record: Record) -> Mapping[str, str]:
        document = _ANY.decode(record.value)
        return {name: _text(document, stored) for name, stored in self._supported.items()}


def _names_of(resource: Resource) -> tuple[str, ...]:
    # Cluster-scoped kinds with selectable fields of their own don't support metadata.namespace.
    if not resource.namespaced and (resource.group, resource.plural) in _FIELDS:
        return _NAMES[:1]
    return (*_NAMES, "spec.host") if resource.plural == "pods" else _NAMES


def _labels_of(record: Record) -> Mapping[str, str]:
    return _LABELS.decode(record.value).metadata.labels


def _text(document: Mapping[str, Any], path: str) -> str:
    if path == "source":
        component: str = document.get("source", {}).get("component", "")
        return component or str(document.get("reportingComponent", ""))
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None:
        return _ZERO.get(path, "")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""

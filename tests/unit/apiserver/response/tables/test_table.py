# SPDX-License-Identifier: Apache-2.0
"""The Table document, and what holds for every printer."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from kubeloop.api.features.optional_resources import OPTIONAL_RESOURCES
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.apiserver.response.tables import TableOptions, cells_of, columns_of, render_table, table_rows
from kubeloop.apiserver.response.tables.registry import PRINTERS

STORED = [resource for resource in (*RESOURCES, *OPTIONAL_RESOURCES) if "get" in resource.verbs]
# Upstream's rows of addresses have one cell more than there are columns.
EXTRA_CELLS = {"IPAddress": 1}
META = {"resourceVersion": "7"}


def rendered(resource: Resource | None, entries: Any, include: str, now: Any, **options: Any) -> Any:
    chosen = TableOptions(include, **{"is_list": True, **options})
    return json.loads(render_table(resource, entries, META, now, chosen))


@pytest.mark.parametrize("resource", STORED, ids=lambda r: f"{r.kind}.{r.group_version}")
def test_an_empty_object_of_any_kind_fills_every_column(resource: Resource, now: Any) -> None:
    cells = cells_of(resource, resource.type(), now)
    assert len(cells) == len(columns_of(resource)) + EXTRA_CELLS.get(resource.kind, 0)
    assert all(isinstance(cell, str | int) for cell in cells)


@pytest.mark.parametrize("resource", STORED, ids=lambda r: f"{r.kind}.{r.group_version}")
def test_columns_have_distinct_names_and_a_description(resource: Resource) -> None:
    columns = columns_of(resource)
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.description for column in columns)
    assert all(column.type in ("string", "integer", "boolean", "date") for column in columns)


def test_every_printer_is_for_a_served_resource() -> None:
    assert {(r.group, r.kind) for r in STORED} | {("autoscaling", "Scale")} >= PRINTERS.keys()


def test_a_kind_without_a_printer_shows_name_and_creation() -> None:
    assert [(c.name, c.type, c.format) for c in columns_of(None)] == [
        ("Name", "string", "name"),
        ("Created At", "date", ""),
    ]


def test_a_row_carries_the_objects_metadata_by_default(resource: Any, build: Any, now: Any) -> None:
    pods = resource("pods.v1")
    table = rendered(pods, [(build("pods.v1"), b'{"name":"x"}', None)], "", now)
    assert (table["kind"], table["apiVersion"], table["metadata"]) == ("Table", "meta.k8s.io/v1", META)
    assert [column["name"] for column in table["columnDefinitions"]] == [column.name for column in columns_of(pods)]
    assert list(table["columnDefinitions"][0]) == ["name", "type", "format", "description", "priority"]
    (row,) = table["rows"]
    assert list(row) == ["cells", "object"]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}}
    assert row["object"] == partial


@pytest.mark.parametrize(
    ("include", "shown"),
    [
        ("Object", {"kind": "Pod"}),
        ("None", None),
        ("Metadata", {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1beta1", "metadata": {}}),
    ],
)
def test_row_includes_the_requested_object(resource: Any, build: Any, now: Any, include: str, shown: Any) -> None:
    entry = (build("pods.v1"), b"{}", b'{"kind":"Pod"}')
    table = rendered(resource("pods.v1"), [entry], include, now, version="v1beta1")
    assert table["apiVersion"] == "meta.k8s.io/v1beta1"
    assert table["rows"][0]["object"] == shown


def test_a_finished_pods_row_has_a_condition(resource: Any, build: Any, now: Any) -> None:
    entry = (build("pods.v1", status={"phase": "Failed"}), b"{}", None)
    (row,) = rendered(resource("pods.v1"), [entry], "None", now)["rows"]
    assert list(row) == ["cells", "conditions", "object"]
    assert row["conditions"] == [
        {"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}
    ]


def test_rows_keep_their_objects_when_a_list_is_sorted(resource: Any, build: Any, now: Any) -> None:
    kind = "flowschemas.flowcontrol.apiserver.k8s.io/v1"
    names = [("z", 1), ("a", 2), ("m", 0)]
    entries = [
        (build(kind, {"name": name}, spec={"matchingPrecedence": number}), json.dumps({"name": name}).encode(), None)
        for name, number in names
    ]
    rows = rendered(resource(kind), entries, "", now)["rows"]
    assert [row["cells"][0] for row in rows] == [row["object"]["metadata"]["name"] for row in rows] == ["m", "z", "a"]


@pytest.mark.parametrize(("kind", "rows"), [("pods.v1", []), ("limitranges.v1", None)])
def test_an_empty_list_has_no_rows(resource: Any, now: Any, kind: str, rows: Any) -> None:
    assert rendered(resource(kind), [], "", now)["rows"] == rows


def test_later_watch_events_omit_the_columns(resource: Any, build: Any, now: Any) -> None:
    options = {"is_list": False, "with_columns": False}
    assert (
        rendered(resource("pods.v1"), [(build("pods.v1"), b"{}", None)], "", now, **options)["columnDefinitions"]
        is None
    )
    services = "apiservices.apiregistration.k8s.io/v1"
    table = rendered(resource(services), [(build(services), b"{}", None)], "", now, **options)
    assert len(table["columnDefinitions"]) == 4


def test_single_object_is_not_a_list(resource: Any, build: Any, now: Any) -> None:
    kind = "storageclasses.storage.k8s.io/v1"
    made = build(kind, {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}})
    shown = [
        rendered(resource(kind), [(made, b"{}", None)], "", now, is_list=is_list)["rows"][0]["cells"][0]
        for is_list in (True, False)
    ]
    assert shown == ["x (default)", "x"]


def test_rows_of_a_list_keep_its_order(resource: Any, build: Any, now: Any) -> None:
    built = [build("pods.v1", {"name": name}) for name in "cab"]
    assert [cells[0] for _, cells in table_rows(resource("pods.v1"), built, now)] == ["c", "a", "b"]


def test_printing_one_kind_does_not_load_the_types_of_all_others() -> None:
    program = (
        "import sys, kubeloop.apiserver.response.tables; "
        "print(sum(name.startswith('kubeloop.api.generated.') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 0

"""Response writers: objects, metadata or Tables; as JSON, YAML or protobuf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubeloop.api import errors
from kubeloop.apiserver.handlers.list_objects import ListPage
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.negotiation import ACCEPTED, PROTOBUF, ResponseFormat
from kubeloop.apiserver.watch.hub import WatchEncoder
from kubeloop.http import Response
from kubeloop.store import Record

# Response placeholder for an in-process caller, who takes the object itself.
OBJECT_TAKEN_RESPONSE = Response(200, b"")


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return Warning headers as kubectl prints them: `299 - "text"`, quotes and backslashes escaped."""
    escape = str.maketrans({'"': '\\"', "\\": "\\\\"})
    return tuple(("Warning", f'299 - "{_one_line(text).translate(escape)}"') for text in warnings)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)


def document_response(ctx: RequestContext, document: bytes, status: int = 200) -> Response:
    """Return one JSON document as response, re-encoded or indented as requested."""
    headers = warning_headers(ctx.warnings) if ctx.warnings else ()
    if ctx.form.yaml:
        return Response(status, _to_yaml(document), "application/yaml", headers)
    if ctx.form.protobuf:
        return Response(status, _to_protobuf(document), PROTOBUF, headers)
    if ctx.query and ctx.query.flag("pretty"):
        document = msgspec.json.format(document, indent=2)
    return Response(status, document + b"\n", headers=headers)


def _to_yaml(document: bytes) -> bytes:
    import yaml

    text: str = yaml.safe_dump(msgspec.json.decode(document), default_flow_style=False, allow_unicode=True)
    return text.encode()


def _to_protobuf(document: bytes) -> bytes:
    from kubeloop.api import protobuf  # imported on first use

    plain = msgspec.json.decode(document)
    if not protobuf.is_known(plain["apiVersion"], plain["kind"]):
        raise errors.not_acceptable(ACCEPTED)
    return protobuf.encode_object(plain)


def object_response(
    ctx: RequestContext, storage: ResourceStorage, value: bytes, revision: int, status: int = 200
) -> Response:
    """Return the response for one stored object."""
    form, view = ctx.form, storage.view
    if not form.convert:
        return document_response(ctx, view.object(value, revision), status)
    if form.convert == "PartialObjectMetadata":
        return document_response(ctx, view.partial(value, revision, form.meta_version), status)
    if form.convert == "Table":
        record = Record("", value, revision, revision)
        metadata = {"resourceVersion": str(revision)} if revision else {}
        return document_response(ctx, encode_table(ctx, storage, [record], metadata), status)
    raise _unsupported_format_error(ctx, "not a list", storage.resource.kind)


def list_response(ctx: RequestContext, storage: ResourceStorage, page: ListPage) -> Response:
    """Return the response for one page of a list."""
    form, view = ctx.form, storage.view
    if not form.convert:
        items = [view.item(record.value, record.mod_revision) for record in page.records]
        parts = view.list(page.metadata(), items)
        if form.yaml or form.protobuf or ctx.query.flag("pretty"):
            return document_response(ctx, b"".join(parts))
        return Response(200, parts, headers=warning_headers(ctx.warnings))
    if form.convert == "PartialObjectMetadataList":
        items = [view.partial(record.value, record.mod_revision, form.meta_version) for record in page.records]
        head = (
            b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%b","metadata":'
            % form.meta_version.encode()
        )
        return document_response(ctx, head + page.metadata() + b',"items":[' + b",".join(items) + b"]}")
    if form.convert == "Table":
        return document_response(
            ctx, encode_table(ctx, storage, page.records, msgspec.json.decode(page.metadata()), is_list=True)
        )
    raise _unsupported_format_error(ctx, "a list", storage.resource.list_kind)


def encode_table(
    ctx: RequestContext,
    storage: ResourceStorage,
    records: list[Record],
    meta: dict[str, Any],
    *,
    is_list: bool = False,
    with_columns: bool = True,
) -> bytes:
    """Return records as an encoded Table; `includeObject` decides what each row carries of its object."""
    from kubeloop.apiserver.response.tables import render_table

    include = ctx.query.text("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise errors.bad_request(
            f"Unable to convert to Table as requested: unrecognized includeObject value: {include}"
        )
    view = storage.view
    rows = (
        (
            view.decode_record(record),
            view.metadata(record.value, record.mod_revision) if include == "Metadata" else None,
            view.object(record.value, record.mod_revision) if include == "Object" else None,
        )
        for record in records
    )
    return render_table(
        storage.resource,
        rows,
        meta,
        include,
        ctx.now,
        is_list=is_list,
        with_columns=with_columns,
        version=ctx.form.meta_version,
    )


def _unsupported_format_error(ctx: RequestContext, what: str, kind: str) -> errors.ApiError:
    package = ctx.resource.group.partition(".")[0] or "core"
    return errors.NotAcceptable(
        f"you requested {ctx.form.convert}, but the requested object is {what} (*{package}.{kind})"
    )


class _JsonEncoder:
    """Encoder of watch events as lines of JSON."""

    def event(self, kind: bytes, body: bytes) -> bytes:
        return b'{"type":"%b","object":%b}\n' % (kind, body)


class ObjectWatchEncoder(_JsonEncoder):
    """Watch events with whole objects."""

    def __init__(self, storage: ResourceStorage) -> None:
        self._view = storage.view
        self.token: object = self._view.resource.group_version

    def event_object(self, value: bytes, revision: int) -> bytes:
        """Return the encoded object."""
        return self._view.object(value, revision)

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return an object of the kind with nothing but its resourceVersion."""
        resource = self._view.resource
        return _bookmark(resource.kind, resource.group_version, revision, initial_events_end)


class MetadataWatchEncoder(_JsonEncoder):
    """Watch events with metadata only."""

    def __init__(self, storage: ResourceStorage, form: ResponseFormat) -> None:
        self._view = storage.view
        self._version = form.meta_version
        self.token: object = (self._view.resource.group_version, "metadata", self._version)

    def event_object(self, value: bytes, revision: int) -> bytes:
        """Return the object as encoded PartialObjectMetadata."""
        return self._view.partial(value, revision, self._version)

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return a PartialObjectMetadata with nothing but its resourceVersion."""
        return _bookmark("PartialObjectMetadata", f"meta.k8s.io/{self._version}", revision, initial_events_end)


class TableWatchEncoder(_JsonEncoder):
    """Watch events as Tables of one row; only the first has column definitions."""

    def __init__(self, ctx: RequestContext, storage: ResourceStorage) -> None:
        self._ctx = ctx
        self._storage = storage
        self._first = True
        self.token: object = self

    def event_object(self, value: bytes, revision: int) -> bytes:
        """Return the object as an encoded Table of one row."""
        first, self._first = self._first, False
        record = Record("", value, revision, revision)
        return encode_table(self._ctx, self._storage, [record], {"resourceVersion": str(revision)}, with_columns=first)

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return an object of the kind with nothing but its resourceVersion."""
        resource = self._storage.resource
        return _bookmark(resource.kind, resource.group_version, revision, initial_events_end)


class ProtobufWatchEncoder:
    """Events of another presenter, as framed protobuf messages."""

    def __init__(self, inner: WatchEncoder) -> None:
        self._inner = inner
        self.token: object = ("protobuf", inner.token)

    def event_object(self, value: bytes, revision: int) -> bytes:
        """Return the wrapped presenter's encoded object."""
        return self._inner.event_object(value, revision)

    def bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return the wrapped presenter's encoded bookmark."""
        return self._inner.bookmark(revision, initial_events_end)

    def event(self, kind: bytes, body: bytes) -> bytes:
        """Return the event as a framed protobuf message."""
        from kubeloop.api import protobuf  # imported on first use

        return protobuf.encode_watch_frame(kind.decode(), msgspec.json.decode(body))


def _bookmark(kind: str, api_version: str, revision: int, initial_events_end: bool) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_events_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})

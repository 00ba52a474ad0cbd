# SPDX-License-Identifier: Apache-2.0
"""Response writers: objects, metadata or Tables; as JSON, YAML or protobuf."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.handlers.list_objects import ListPage
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.apiserver.registry.store import WriteResult
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.request.negotiation import PLAIN, ResponseFormat
from kubeloop.apiserver.response.documents import encode_document, warning_headers
from kubeloop.apiserver.watch.hub import WatchEncoder
from kubeloop.http import Response, encode_chunk
from kubeloop.store import Record

# Length of a protobuf message in a stream.
_LENGTH_BYTES: Final = 4
# Responses of more bytes than this are encoded in the worker thread, if they need more than the stored bytes.
_LARGE = 64 << 10


class DeferredResponse(Response):
    """Response whose encoding would delay other requests: the server runs it in the worker thread."""

    __slots__ = ("encode",)

    def __init__(self, encode: Callable[[], Response]) -> None:
        super().__init__()
        self.encode = encode


class ObjectResponse(Response):
    """Response to an in-process caller: the result of a write instead of its bytes."""

    __slots__ = ("written",)

    def __init__(self, written: WriteResult) -> None:
        super().__init__()
        self.written = written


def document_response(ctx: RequestContext, document: bytes, status: int = 200) -> Response:
    """Return one JSON document as response, in the negotiated format."""
    if ctx.format is PLAIN:
        headers = warning_headers(ctx.warnings) if ctx.has_warnings else ()
        return Response(status, document + b"\n", headers=headers)
    if len(document) > _LARGE and (ctx.format.yaml or ctx.format.protobuf or ctx.format.pretty):
        return DeferredResponse(partial(_encoded_response, ctx, document, status))
    return _encoded_response(ctx, document, status)


def _encoded_response(ctx: RequestContext, document: bytes, status: int) -> Response:
    headers = warning_headers(ctx.warnings) if ctx.has_warnings else ()
    body, media = encode_document(document, ctx.format)
    return Response(status, body, media, headers)


def object_response(
    ctx: RequestContext, storage: ResourceStorage, value: bytes, revision: int, status: int = 200
) -> Response:
    """Return the response for one stored object."""
    form, view = ctx.format, storage.serializer
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
    if ctx.format.convert and storage.conversion is None and sum(len(one.value) for one in page.records) > _LARGE:
        return DeferredResponse(partial(_encoded_list, ctx, storage, page))
    return _encoded_list(ctx, storage, page)


def _encoded_list(ctx: RequestContext, storage: ResourceStorage, page: ListPage) -> Response:
    form, view = ctx.format, storage.serializer
    if not form.convert:
        parts = view.list(page.metadata(), view.items(page.records))
        if form is not PLAIN:
            return document_response(ctx, b"".join(parts))
        return Response(200, parts, headers=warning_headers(ctx.warnings) if ctx.has_warnings else ())
    if form.convert == "PartialObjectMetadataList":
        items = [view.partial(record.value, record.mod_revision, form.meta_version) for record in page.records]
        head = (
            b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%b","metadata":'
            % form.meta_version.encode()
        )
        shown = b"[%b]" % b",".join(items) if items else b"null"
        return _encoded_response(ctx, b'%b%b,"items":%b}' % (head, page.metadata(), shown), 200)
    if form.convert == "Table":
        meta = msgspec.json.decode(page.metadata())
        return _encoded_response(ctx, encode_table(ctx, storage, page.records, meta, is_list=True), 200)
    raise _unsupported_format_error(ctx, "a list", storage.resource.list_kind)


def included_object(ctx: RequestContext) -> str:
    """Return the part of an object that each row of a Table carries; raises BadRequest."""
    include = ctx.query.text("includeObject") or "Metadata"
    if include not in ("None", "Metadata", "Object"):
        raise errors.bad_request(
            f"Unable to convert to Table as requested: includeObject: Invalid value: {quote(include)}: "
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return include


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
    from kubeloop.apiserver.response.tables import TableOptions, render_table

    include = included_object(ctx)
    view = storage.serializer
    rows = (
        (
            view.decode_record(record),
            view.metadata(record.value, record.mod_revision) if include == "Metadata" else None,
            view.object(record.value, record.mod_revision) if include == "Object" else None,
        )
        for record in records
    )
    options = TableOptions(include, is_list, with_columns, ctx.format.meta_version)
    return render_table(storage.resource, rows, meta, ctx.now, options)


def _unsupported_format_error(ctx: RequestContext, what: str, kind: str) -> errors.ApiError:
    if ctx.resource.is_custom and what == "not a list":
        return errors.ApiError("content is not a list")  # an unstructured object may be a list, until it is read as one
    name = "unstructured.UnstructuredList" if ctx.resource.is_custom else f"{internal_package(ctx.resource)}.{kind}"
    return errors.NotAcceptable(f"you requested {ctx.format.convert}, but the requested object is {what} (*{name})")


def internal_package(resource: Resource) -> str:
    """Return the name of upstream's package of a kind's internal type; both groups of events have one type."""
    return "core" if resource.group in ("", "events.k8s.io") else resource.group.partition(".")[0]


class _JsonEncoder:
    """Encoder of watch events as lines of JSON, a chunk each."""

    def encode_frame(self, kind: bytes, body: bytes) -> bytes:
        return encode_chunk(encode_json_event(kind, body))


def encode_json_event(kind: bytes, body: bytes) -> bytes:
    """Return a watch event as a line of JSON."""
    return b'{"type":"%b","object":%b}\n' % (kind, body)


def encode_protobuf_event(kind: bytes, body: bytes) -> bytes:
    """Return a watch event as a protobuf message."""
    from kubeloop.api import protobuf  # imported on first use

    return protobuf.encode_watch_event(kind.decode(), msgspec.json.decode(body))


class ObjectWatchEncoder(_JsonEncoder):
    """Watch events with whole objects."""

    def __init__(self, storage: ResourceStorage) -> None:
        self._serializer = storage.serializer
        self.token: object = self._serializer.resource.group_version

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the encoded object."""
        return self._serializer.object(value, revision)

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return an object of the kind with nothing but its resourceVersion."""
        resource = self._serializer.resource
        return _bookmark(resource.kind, resource.group_version, revision, initial_events_end)


class MetadataWatchEncoder(_JsonEncoder):
    """Watch events with metadata only."""

    def __init__(self, storage: ResourceStorage, form: ResponseFormat) -> None:
        self._serializer = storage.serializer
        self._version = form.meta_version
        self.token: object = (self._serializer.resource.group_version, "metadata", self._version)

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the object as encoded PartialObjectMetadata."""
        return self._serializer.partial(value, revision, self._version)

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return a PartialObjectMetadata with nothing but its resourceVersion."""
        return _bookmark("PartialObjectMetadata", f"meta.k8s.io/{self._version}", revision, initial_events_end)


class TableWatchEncoder(_JsonEncoder):
    """Watch events as Tables of one row; only the first has column definitions."""

    def __init__(self, ctx: RequestContext, storage: ResourceStorage) -> None:
        self._ctx = ctx
        self._storage = storage
        self._first = True
        self.token: object = self

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the object as an encoded Table of one row."""
        first, self._first = self._first, False
        record = Record("", value, revision, revision)
        return encode_table(self._ctx, self._storage, [record], {"resourceVersion": str(revision)}, with_columns=first)

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return an object of the kind with nothing but its resourceVersion."""
        resource = self._storage.resource
        return _bookmark(resource.kind, resource.group_version, revision, initial_events_end)


class ProtobufWatchEncoder:
    """Events of another presenter, as framed protobuf messages."""

    def __init__(self, inner: WatchEncoder) -> None:
        self._inner = inner
        self.token: object = ("protobuf", inner.token)

    def encode_object(self, value: bytes, revision: int) -> bytes:
        """Return the wrapped presenter's encoded object."""
        return self._inner.encode_object(value, revision)

    def encode_bookmark(self, revision: int, initial_events_end: bool) -> bytes:
        """Return the wrapped presenter's encoded bookmark."""
        return self._inner.encode_bookmark(revision, initial_events_end)

    def encode_frame(self, kind: bytes, body: bytes) -> bytes:
        """Return the event as a chunk with a protobuf message and its length."""
        message = encode_protobuf_event(kind, body)
        return encode_chunk(len(message).to_bytes(_LENGTH_BYTES, "big") + message)


def _bookmark(kind: str, api_version: str, revision: int, initial_events_end: bool) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(revision)}
    if initial_events_end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    return msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": meta})

# SPDX-License-Identifier: Apache-2.0
"""Read-only API groups computed on request (metrics.k8s.io); nothing is stored."""

from __future__ import annotations

import msgspec

from kubeloop.api import errors
from kubeloop.api.kubelet_requests import VirtualGroup
from kubeloop.api.selectors import LabelSelector, SelectorError, parse_label_selector
from kubeloop.apiserver.request.context import RequestContext
from kubeloop.apiserver.response.writers import document_response
from kubeloop.http import Response


def virtual_group_response(ctx: RequestContext, group: VirtualGroup) -> Response:
    """Return one object of a virtual group, or the list that the label selector matches."""
    target, resource = ctx.target, ctx.target.resource
    if target.name:
        found = group.objects(resource, target.namespace, target.name)
        if not found:
            raise errors.not_found(resource.group, resource.plural, target.name)
        return document_response(ctx, msgspec.json.encode({**_type(resource.kind, resource.group_version), **found[0]}))
    selector = _selector(ctx)
    every = group.objects(resource, target.namespace)
    items = [one for one in every if selector.matches(one["metadata"].get("labels") or {})]
    whole = {**_type(resource.list_kind, resource.group_version), "metadata": {}, "items": items}
    return document_response(ctx, msgspec.json.encode(whole))


def _type(kind: str, api_version: str) -> dict[str, str]:
    return {"kind": kind, "apiVersion": api_version}


def _selector(ctx: RequestContext) -> LabelSelector:
    try:
        return parse_label_selector(ctx.query.text("labelSelector"))
    except SelectorError as error:
        raise errors.bad_request(str(error)) from None

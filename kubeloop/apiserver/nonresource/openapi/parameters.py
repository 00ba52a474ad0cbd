# SPDX-License-Identifier: Apache-2.0
"""Parameters of requests, by verb and by subresource."""

from __future__ import annotations

from typing import NamedTuple


class Parameter(NamedTuple):
    """Parameter in the query or, if `place` says so, in the path."""

    name: str
    type: str = "string"
    place: str = "query"


def _strings(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name) for name in names)


def _booleans(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "boolean") for name in names)


def _integers(*names: str) -> tuple[Parameter, ...]:
    return tuple(Parameter(name, "integer") for name in names)


PRETTY = _strings("pretty")
NAME = (Parameter("name", "string", "path"),)
REST_OF_PATH = (Parameter("path", "string", "path"),)
NAMESPACE = (Parameter("namespace", "string", "path"),)
_WRITING = _strings("dryRun", "fieldManager", "fieldValidation")
_SELECTING = (
    *_strings("continue", "fieldSelector", "labelSelector"),
    *_integers("limit"),
    *_strings("resourceVersion", "resourceVersionMatch"),
    *_booleans("sendInitialEvents"),
    *_strings("shardSelector"),
    *_integers("timeoutSeconds"),
)
_DELETING = (
    *_strings("dryRun"),
    *_integers("gracePeriodSeconds"),
    *_booleans("ignoreStoreReadErrorWithClusterBreakingPotential", "orphanDependents"),
    *_strings("propagationPolicy"),
)
BY_VERB = {
    "create": _WRITING,
    "update": _WRITING,
    "patch": _WRITING + _booleans("force"),
    "list": _booleans("allowWatchBookmarks") + _SELECTING + _booleans("watch"),
    "delete": _DELETING,
    "deletecollection": _DELETING + _SELECTING,
}
BY_SUBRESOURCE = {
    "attach": _strings("container") + _booleans("stderr", "stdin", "stdout", "tty"),
    "exec": _strings("command", "container") + _booleans("stderr", "stdin", "stdout", "tty"),
    "log": (
        *_strings("container"),
        *_booleans("follow", "insecureSkipTLSVerifyBackend"),
        *_integers("limitBytes"),
        *_booleans("previous"),
        *_integers("sinceSeconds"),
        *_strings("stream"),
        *_integers("tailLines"),
        *_booleans("timestamps"),
    ),
    "portforward": _integers("ports"),
    "proxy": _strings("path"),
}

"""`/healthz`, `/livez` and `/readyz`: named checks, all at once or one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.http import Response

# A check returns an empty text if healthy, else the reason.
Check = Callable[[], str]
_TEXT = "text/plain; charset=utf-8"


class HealthChecks:
    """Health checks of the three endpoints."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._checks = {"healthz": {**live, **ready}, "livez": dict(live), "readyz": {**live, **ready}}

    def answer(self, path: str, query: Query) -> Response:
        """Return the response of a health endpoint, or of one of its checks."""
        _, endpoint, *rest = path.split("/", 2)
        checks = self._checks[endpoint]
        if rest:
            return self._one(endpoint, rest[0])
        excluded = set(query.every("exclude"))
        failed = False
        lines = []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif check():
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        unknown = sorted(excluded - checks.keys())
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        if failed:
            return Response(500, _text([*lines, f"{endpoint} check failed"]), _TEXT)
        if query.flag("verbose"):
            return Response(200, _text([*lines, f"{endpoint} check passed"]), _TEXT)
        return Response(200, b"ok", _TEXT)

    def _one(self, endpoint: str, name: str) -> Response:
        check = self._checks[endpoint].get(name)
        if check is None:
            raise PageNotFound
        problem = check()
        if problem:
            return Response(500, f"internal server error: {problem}\n".encode(), _TEXT)
        return Response(200, b"ok", _TEXT)


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()

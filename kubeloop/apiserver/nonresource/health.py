# SPDX-License-Identifier: Apache-2.0
"""`/healthz`, `/livez` and `/readyz`: named checks, all at once or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kubeloop.apiserver.request.query import Query
from kubeloop.apiserver.request.routing import PageNotFound
from kubeloop.apiserver.response.documents import NO_SNIFF, TEXT
from kubeloop.http import Response
from kubeloop.metrics import HealthCheckMetrics

# A check returns an empty text if healthy, else the reason.
Check = Callable[[], str]


class HealthChecks:
    """Health checks of the three endpoints; without its own, healthz has those of readyz."""

    def __init__(
        self,
        live: Mapping[str, Check],
        ready: Mapping[str, Check],
        healthz: Mapping[str, Check] | None = None,
        metrics: HealthCheckMetrics | None = None,
    ) -> None:
        self.metrics = metrics or HealthCheckMetrics()
        ready = {**live, **ready} if healthz is None else ready
        self._checks = {"healthz": ready if healthz is None else healthz, "livez": live, "readyz": ready}

    def paths(self) -> Iterator[str]:
        """Yield the paths of all checks."""
        for endpoint, checks in self._checks.items():
            yield f"/{endpoint}"
            yield from (f"/{endpoint}/{name}" for name in checks)

    def handle(self, path: str, query: Query) -> Response:
        """Return the response of a health endpoint, or of one of its checks."""
        _, endpoint, *rest = path.split("/", 2)
        checks = self._checks[endpoint]
        if rest:
            return self._one(endpoint, rest[0])
        excluded = set(query.all_values("exclude"))
        failed = False
        lines = []
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            passed = not check()
            self.metrics.observe(name, endpoint, passed=passed)
            failed = failed or not passed
            lines.append(f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld")
        unknown = sorted(excluded - checks.keys())
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
        if failed:
            return Response(500, _text([*lines, f"{endpoint} check failed"]), TEXT, NO_SNIFF)
        if query.flag("verbose"):
            return Response(200, _text([*lines, f"{endpoint} check passed"]), TEXT, NO_SNIFF)
        return Response(200, b"ok", TEXT, NO_SNIFF)

    def _one(self, endpoint: str, name: str) -> Response:
        check = self._checks[endpoint].get(name)
        if check is None:
            raise PageNotFound
        problem = check()
        if problem:
            return Response(500, f"internal server error: {problem}\n".encode(), TEXT, NO_SNIFF)
        return Response(200, b"ok", TEXT)


def _text(lines: list[str]) -> bytes:
    return ("\n".join(lines) + "\n").encode()

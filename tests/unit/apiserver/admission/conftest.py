# SPDX-License-Identifier: Apache-2.0
"""A small cluster to look things up in, and a short way to try a write against the built-in plugins."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kubeloop.api import errors
from kubeloop.api.codec import force_setattr, from_plain, to_plain
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.generated.core_v1 import ResourceQuota
from kubeloop.api.kinds import RESOURCES, Resource
from kubeloop.api.quota import QuotaUsage
from kubeloop.apiserver.admission import AdmissionChain, Attributes, default_chain
from kubeloop.apiserver.admission.setup import AdmissionSetup, PluginContext
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.request.warning_recorder import WarningRecorder

Plain = dict[str, Any]


class FixedClock:
    """Always noon, always the same dice."""

    def __init__(self) -> None:
        self._random = random.Random(7)

    def now(self) -> datetime:
        return datetime(2026, 5, 10, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    def random(self) -> random.Random:
        return self._random


class Cluster:
    """Objects visible to plugins, by plural."""

    def __init__(self) -> None:
        self._objects: dict[str, list[Any]] = {}

    def add(self, plural: str, name: str, namespace: str = "", metadata: Plain | None = None, **fields: Any) -> None:
        plain = {"metadata": {"name": name, "namespace": namespace, **(metadata or {})}, **fields}
        self._objects[plural] = [*self._objects.get(plural, ()), from_plain(plain, resource_named(plural).type)]

    def get_object(self, plural: str, namespace: str, name: str, group: str = "", version: str = "v1") -> Any | None:
        assert resource_named(plural).group == group
        found = (o for o in self.list_objects(plural, namespace, group) if o.metadata.name == name)
        return next(found, None)

    def list_objects(self, plural: str, namespace: str = "", group: str = "", version: str = "v1") -> Sequence[Any]:
        assert resource_named(plural).group == group
        return [o for o in self._objects.get(plural, ()) if not namespace or o.metadata.namespace == namespace]

    def get_quotas(self, namespace: str) -> Sequence[ResourceQuota]:
        return self.list_objects("resourcequotas", namespace)

    def update_quota_status(self, charge: QuotaUsage, now: datetime) -> None:
        used = {name: str(amount) for name, amount in charge.used.items()}
        force_setattr(charge.quota, "status", replace(charge.quota.status, used=used))


def resource_named(plural: str) -> Resource:
    return next(r for r in RESOURCES if r.plural == plural)


class Writes:
    """Admits writes and returns the resulting object."""

    def __init__(self, chain: AdmissionChain) -> None:
        self._chain = chain
        self._recorder = WarningRecorder()

    @property
    def warnings(self) -> list[str]:
        """All warnings, each once."""
        return list(self._recorder)

    def create(self, plural: str, namespace: str = "", *, name: str = "x", **fields: Any) -> Plain:
        return self._run("CREATE", plural, namespace, name, self._built(plural, name, namespace, fields), None)

    def update(self, plural: str, namespace: str, old: Plain, new: Plain, *, subresource: str = "") -> Plain:
        before = self._built(plural, "x", namespace, old)
        after = self._built(plural, "x", namespace, new)
        return self._run("UPDATE", plural, namespace, "x", after, before, subresource)

    def delete(self, plural: str, name: str, namespace: str = "") -> None:
        self._run("DELETE", plural, namespace, name, None, self._built(plural, name, namespace, {}))

    def post(self, plural: str, subresource: str, namespace: str, obj: Any) -> Plain:
        return self._run("CREATE", plural, namespace, "x", obj, None, subresource)

    def _built(self, plural: str, name: str, namespace: str, fields: Plain) -> Any:
        metadata = {"name": name, "namespace": namespace, **fields.get("metadata", {})}
        obj = from_plain({**fields, "metadata": metadata}, resource_named(plural).type)
        apply_defaults(obj)
        return obj

    def _run(
        self, operation: Any, plural: str, namespace: str, name: str, obj: Any, old: Any, subresource: str = ""
    ) -> Plain:
        user, noon = User("jane"), datetime(2026, 5, 10, 12, tzinfo=UTC)
        attempt = Attributes(
            operation, resource_named(plural), subresource, namespace, name, obj, old, user, False, noon, self._recorder
        )
        self._chain.admit(attempt)
        self._chain.validate(attempt)
        self._chain.validate_quota(attempt)
        return {} if obj is None else to_plain(obj)


@pytest.fixture
def cluster() -> Cluster:
    """Return one with namespace `shop` and its default account."""
    made = Cluster()
    made.add("namespaces", "shop", status={"phase": "Active"})
    made.add("serviceaccounts", "default", "shop")
    return made


@pytest.fixture
def writes(cluster: Cluster) -> Writes:
    return Writes(default_chain(PluginContext(cluster, cluster)))


class PluginWrites:
    """Tries writes against the chain of one plugin."""

    def __init__(self, chain: AdmissionChain) -> None:
        self._writes = Writes(chain)
        self._chain = chain

    def update_spec(self, plural: str, old: Plain, new: Plain) -> Plain:
        """The spec of an object after an update."""
        result = self._writes.update(plural, "shop", {"spec": old}, {"spec": new})
        spec: Plain = result["spec"]
        return spec

    def refused_update(self, plural: str, old: Plain, new: Plain) -> str:
        """The message of a refused update."""
        with pytest.raises(errors.ApiError) as caught:
            self.update_spec(plural, old, new)
        return caught.value.message

    def validate(self, plural: str, spec: Plain) -> str:
        """The refusal of an object that comes from mutation in this form."""
        obj = self._writes._built(plural, "x", "shop", {"spec": spec})
        noon = datetime(2026, 5, 10, 12, tzinfo=UTC)
        attempt = Attributes(
            "CREATE", resource_named(plural), "", "shop", "x", obj, None, User("jane"), False, noon, []
        )
        with pytest.raises(errors.ApiError) as caught:
            self._chain.validate(attempt)
        return caught.value.message


@pytest.fixture
def writes_with(cluster: Cluster) -> Callable[[str], PluginWrites]:
    """Enables one plugin that needs nothing but other objects."""
    return lambda name: PluginWrites(
        default_chain(PluginContext(cluster, cluster, setup=AdmissionSetup(frozenset({name}))))
    )


@pytest.fixture
def pod(writes: Writes) -> Callable[..., Plain]:
    """Creates a pod in `shop` with the given spec and returns it as admitted."""

    def created(metadata: Plain | None = None, **spec: Any) -> Plain:
        spec.setdefault("containers", [{"name": "web", "image": "nginx"}])
        return writes.create("pods", "shop", metadata=metadata or {}, spec=spec)

    return created

# SPDX-License-Identifier: Apache-2.0
"""Cache of claim infos with the checkpoint `dra_manager_state`.

A claim is in the checkpoint from before the first call of a driver until after the last: whenever the kubelet ends,
the next one knows every claim that may be prepared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kubeloop.kubelet.checkpoints.store import CheckpointStore, CorruptCheckpoint
from kubeloop.kubelet.cm.dra.claim_info import ClaimInfo, decode_claims, encode_claims

CHECKPOINT = "dra_manager_state"
ANY_DRIVER = "<any>"  # label of the number of all claims in use


class ClaimInfoCache:
    """Claims by namespace and name. Changes are durable after `checkpoint`.

    `prepared` claims need no call of their drivers for another pod. `unpreparing` ones take no other pod.
    Both are forgotten by a restart: drivers are called again, as their calls are idempotent.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._claims: dict[tuple[str, str], ClaimInfo] = {}
        self._prepared: set[tuple[str, str]] = set()
        self._unpreparing: set[tuple[str, str]] = set()

    def restore(self) -> None:
        """Read the checkpoint, or create it. Raises `CorruptCheckpoint`."""
        content = self._store.read(CHECKPOINT)
        if content is None:
            self.checkpoint()
            return
        try:
            claims = decode_claims(content)
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(
                f"create ResourceClaim cache: GetOrCreate() on checkpoint state: "
                f"failed to get checkpoint {CHECKPOINT}: {error}"
            ) from None
        self._claims = {(one.namespace, one.claim_name): one for one in claims}

    def checkpoint(self) -> None:
        """Write the checkpoint."""
        self._store.write(CHECKPOINT, encode_claims(self._claims.values()))

    def __iter__(self) -> Iterator[ClaimInfo]:
        """Iterate over all claims."""
        return iter(tuple(self._claims.values()))

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return a claim, or None."""
        return self._claims.get((namespace, name))

    def put(self, info: ClaimInfo) -> None:
        """Add or replace a claim."""
        self._claims[info.namespace, info.claim_name] = info

    def delete(self, namespace: str, name: str) -> None:
        """Delete a claim."""
        key = (namespace, name)
        self._claims.pop(key, None)
        self._prepared.discard(key)
        self._unpreparing.discard(key)

    def set_prepared(self, namespace: str, name: str) -> None:
        """Mark a claim as prepared by all its drivers."""
        self._prepared.add((namespace, name))

    def is_prepared(self, info: ClaimInfo) -> bool:
        """Return True if this kubelet has had the claim prepared."""
        return (info.namespace, info.claim_name) in self._prepared

    def set_unpreparing(self, info: ClaimInfo) -> None:
        """Mark a claim whose drivers are about to unprepare it."""
        self._unpreparing.add((info.namespace, info.claim_name))

    def is_unpreparing(self, info: ClaimInfo) -> bool:
        """Return True if drivers may unprepare the claim now."""
        return (info.namespace, info.claim_name) in self._unpreparing

    def has_pod(self, uid: str) -> bool:
        """Return True if a claim has a reference of a pod."""
        return any(uid in one.pod_uids for one in self._claims.values())

    def claims_of_pod(self, uid: str) -> list[str]:
        """Return the names of the claims with a reference of a pod."""
        return [one.claim_name for one in self._claims.values() if uid in one.pod_uids]

    def claims_in_use(self) -> dict[tuple[str], float]:
        """Return the number of prepared claims by driver, and of all."""
        prepared = [info for key, info in self._claims.items() if key in self._prepared]
        counts = Counter(driver for info in prepared for driver in info.drivers)
        return {(ANY_DRIVER,): float(len(prepared)), **{(one,): float(count) for one, count in counts.items()}}

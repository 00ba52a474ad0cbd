"""Selects the pods to preempt on a node for a critical pod that does not fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.quota.pod_amounts import requests_of
from kubeloop.kubelet.eviction.ranking import is_critical_pod
from kubeloop.kubelet.sync.pod_state import TerminationReason

PREEMPTION_REASON, PREEMPTION_MESSAGE = "Preempting", "Preempted in order to admit critical pod"
PREEMPTED = TerminationReason(
    PREEMPTION_REASON,
    PREEMPTION_MESSAGE,
    disruption="TerminationByKubelet",
    disruption_message="Pod was preempted by Kubelet to accommodate a critical pod.",
)
_CLASSES = ("Guaranteed", "Burstable", "BestEffort")  # preempted last to first

MissingAmounts = Mapping[str, int]  # missing amounts by resource


class NoVictimsError(Exception):
    """Raised if preempting all eligible pods does not free enough."""


def get_pods_to_preempt(pod: Pod, others: Iterable[Pod], lacking: MissingAmounts) -> list[Pod]:
    """Return the pods to preempt: as few as possible, preferring lower QoS classes and the closest fit.

    Pods of a higher QoS class are only taken where all those of lower classes do not suffice.
    """
    found = [one for one in others if _is_preemptable_by(one, pod)]
    if left := _subtract(lacking, found):
        raise NoVictimsError(_error(left))
    classes = {name: [one for one in found if one.status.qos_class == name] for name in _CLASSES}
    chosen: list[Pod] = []
    for index, name in enumerate(_CLASSES):
        lesser = [one for below in _CLASSES[index + 1 :] for one in classes[below]]
        chosen = [*_get_preemptees(classes[name], _subtract(lacking, [*lesser, *chosen])), *chosen]
    return chosen


def _is_preemptable_by(other: Pod, pod: Pod) -> bool:
    """Return True if a pod may be preempted for another."""
    if is_critical_pod(pod) and not is_critical_pod(other):
        return True
    if pod.spec.priority is None or other.spec.priority is None:
        return False
    return pod.spec.priority > other.spec.priority


def _get_preemptees(pods: Sequence[Pod], lacking: MissingAmounts) -> list[Pod]:
    left, chosen = list(pods), list[Pod]()
    while lacking:
        if not left:
            raise NoVictimsError(_error(lacking))
        best = min(left, key=lambda pod: (_distance(pod, lacking), _amount(pod, "memory"), _amount(pod, "cpu")))
        left.remove(best)
        chosen.append(best)
        lacking = _subtract(lacking, [best])
    return chosen


def _distance(pod: Pod, lacking: MissingAmounts) -> float:
    """Return the distance between a pod's requests and the missing amounts, all resources weighing the same."""
    missing = ((max(amount - _amount(pod, name), 0) / amount) ** 2 for name, amount in lacking.items())
    return sum(missing)


def _subtract(lacking: MissingAmounts, pods: Iterable[Pod]) -> MissingAmounts:
    """Return the amounts still missing without these pods."""
    gone = list(pods)
    left = {name: amount - sum(_amount(pod, name) for pod in gone) for name, amount in lacking.items()}
    return {name: amount for name, amount in left.items() if amount > 0}


def _amount(pod: Pod, name: str) -> int:
    if name == "pods":
        return 1
    requested = requests_of(pod).get(name)
    if requested is None:
        return 0
    return requested.milli_value() if name == "cpu" else requested.value()


def _error(lacking: MissingAmounts) -> str:
    listed = "".join(f"(res: {name}, q: {amount}), " for name, amount in lacking.items())
    why = f"no set of running pods found to reclaim resources: [{listed}]"
    why = f"preemption: error finding a set of pods to preempt: {why}"
    return f"Unexpected error while attempting to recover from admission failure: {why}"

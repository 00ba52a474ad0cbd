# SPDX-License-Identifier: Apache-2.0
"""Defaults of PodGroups and CompositePodGroups: their members are disrupted one by one."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kubeloop.api.codec import force_setattr
from kubeloop.api.generated import scheduling_v1alpha3, scheduling_v1beta1

_ONE: Final = msgspec.Raw(b"{}")
_SINGLE: Final = scheduling_v1beta1.DisruptionMode(single=_ONE)
_OLD_SINGLE: Final = scheduling_v1alpha3.DisruptionMode(single=_ONE)
_SINGLE_GROUP: Final = scheduling_v1alpha3.CompositeDisruptionMode(single=_ONE)


def default_pod_group(group: scheduling_v1beta1.PodGroup) -> None:
    """Apply the defaults of a PodGroup."""
    _default_spec(group.spec, _SINGLE)


def default_pod_group_v1alpha3(group: scheduling_v1alpha3.PodGroup) -> None:
    """Apply the defaults of a v1alpha3 PodGroup."""
    _default_spec(group.spec, _OLD_SINGLE)


def default_composite_pod_group(group: scheduling_v1alpha3.CompositePodGroup) -> None:
    """Apply the defaults of a CompositePodGroup."""
    _default_spec(group.spec, _SINGLE_GROUP)


def _default_spec(spec: Any, mode: Any) -> None:
    if spec.disruption_mode is None:
        force_setattr(spec, "disruption_mode", mode)

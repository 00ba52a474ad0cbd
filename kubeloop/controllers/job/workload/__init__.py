# SPDX-License-Identifier: Apache-2.0
"""Workload and PodGroup of a job, with the feature gate WorkloadWithJob.

job ─▶ manager: which objects the controller manages ─ builder (pure) ─▶ Workload, PodGroup ─▶ schedulingGroup of pods
"""

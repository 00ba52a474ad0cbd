# SPDX-License-Identifier: Apache-2.0
"""Pure facts about pods, their volumes and references, shared by the scheduler, kubelet, controllers and admission.

pod: phase and readiness; placement: taints and node affinity; volumes: claims and persistent volumes;
references: objects that a pod's node may read; usage: objects of metrics.k8s.io.
"""

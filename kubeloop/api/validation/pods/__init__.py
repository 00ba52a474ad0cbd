# SPDX-License-Identifier: Apache-2.0
"""Validation of pods and pod templates.

pod ──▶ spec ──▶ containers (env, mounts, handlers, compute_resources, security), volumes, scheduling, windows
 └─▶ status, resize, annotations, gated_pods; workloads use templates
"""

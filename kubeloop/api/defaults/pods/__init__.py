# SPDX-License-Identifier: Apache-2.0
"""Defaults of pods, their templates and pod groups.

pod.default_pod_spec ──▶ containers (images), volumes, resource_amounts; workloads' defaults call it for templates
"""

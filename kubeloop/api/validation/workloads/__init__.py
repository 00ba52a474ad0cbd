# SPDX-License-Identifier: Apache-2.0
"""Validation of apps, batch, autoscaling, policy and scheduling workloads.

validation's table ──▶ one module per kind ──▶ shared, pods.templates; jobs ──▶ job_policies, job_status, index_ranges
"""

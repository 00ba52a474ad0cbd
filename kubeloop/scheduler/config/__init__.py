# SPDX-License-Identifier: Apache-2.0
"""Scheduler configuration: KubeSchedulerConfiguration and what is derived from it.

file (parse, validate; plugin_args, extender_settings) ──▶ configuration (profiles) ──▶ framework.profile, scheduler
"""

# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod's containers: resources, environment, handlers, probes and resize."""

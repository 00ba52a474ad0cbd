# SPDX-License-Identifier: Apache-2.0
"""Strategies of pods and pod groups.

strategy's table ──▶ pod ──▶ gates (disabled fields), app_armor, qos, resources
                 └─▶ pod_groups; the binding subresource ──▶ binding
"""

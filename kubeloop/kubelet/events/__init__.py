# SPDX-License-Identifier: Apache-2.0
"""Events about pods and nodes with the kubelet's reasons and messages.

sync, admission, eviction, volumes ──▶ recorder ──▶ kubeloop.runtime.events (writes Event objects)
"""

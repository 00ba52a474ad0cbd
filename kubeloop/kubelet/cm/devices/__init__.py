# SPDX-License-Identifier: Apache-2.0
"""Device manager: devices that device plugins announce, and their allocation to containers.

plugin ─ Register ─▶ registration ─ ListAndWatch ─▶ inventory: devices and endpoints ─▶ capacity of the node
admission ─▶ manager ─ device_hints ─ allocator ─ selection ─ Allocate ─▶ pod_devices ─▶ device_options; checkpoint
"""

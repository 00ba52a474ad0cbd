# SPDX-License-Identifier: Apache-2.0
"""Control groups of the node and its pods, of versions 1 and 2, by the drivers cgroupfs and systemd.

qos, pods ─▶ manager ─▶ names (per driver) ─ hierarchy: files of controllers ─ systemd: slices over D-Bus
"""

# SPDX-License-Identifier: Apache-2.0
"""Plugins about storage: binding, zones, restrictions and attach limits.

framework.registry ──▶ these plugins ──▶ scheduler.volumes (chooser, binder, csi_translation, hints)
"""

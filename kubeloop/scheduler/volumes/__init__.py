# SPDX-License-Identifier: Apache-2.0
"""Volume decisions of the scheduler: matching of volumes to claims and provisioning.

plugins.volumes.volume_binding ──▶ chooser (per node) ──▶ binder (matching), csi_translation (in-tree volumes)
hints holds queueing hints shared by the volume plugins.
"""

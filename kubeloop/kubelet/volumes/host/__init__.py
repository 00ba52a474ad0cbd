# SPDX-License-Identifier: Apache-2.0
"""Volumes on the machine of a real node: folders and files that containers mount.

VolumeMounter.set_up(pod) ─▶ payloads: files of configMap, secret, downwardAPI, projected ─▶ atomic_writer ─▶ folder
"""

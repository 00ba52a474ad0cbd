# SPDX-License-Identifier: Apache-2.0
"""Checkpoint files of a real node: state that survives a restart of the kubelet, in upstream's formats.

managers ─▶ store: atomic files ─ checksum: of Go values as upstream prints them
"""

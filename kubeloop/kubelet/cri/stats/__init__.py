# SPDX-License-Identifier: Apache-2.0
"""Statistics of a real node.

CRI (containers, sandboxes), control groups (pods, node), /proc, file systems ──▶ collector ──▶ summary ──▶ pages
"""

# SPDX-License-Identifier: Apache-2.0
"""Settings of sandboxes and containers as CRI messages, computed from the pod. Pure.

pod ─▶ sandbox_config, container_config ─▶ labels, security_context, linux_resources ─▶ cri.messages
"""

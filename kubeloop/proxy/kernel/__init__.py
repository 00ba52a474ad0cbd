# SPDX-License-Identifier: Apache-2.0
"""The kernel's part besides nftables: netlink messages, connection tracking, interface addresses, settings."""

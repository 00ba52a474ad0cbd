# SPDX-License-Identifier: Apache-2.0
"""Scalar types of the API: quantities, times, durations and int-or-string values.

codec ── wire.decode_hook ──▶ canonical strings; quantity, times, duration and intstr parse and format them.
"""

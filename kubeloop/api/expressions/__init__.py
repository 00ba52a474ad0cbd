# SPDX-License-Identifier: Apache-2.0
"""CEL environments and static checks of admission policies, match conditions and device selectors.

validation.extensions, the API server ── admission ──▶ api.cel ──▶ compiled expressions, or errors
validation.devices, the scheduler ── devices ──▶ api.cel; validatingadmissionpolicy_status ── admission_types
"""

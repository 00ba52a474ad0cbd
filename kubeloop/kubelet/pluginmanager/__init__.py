# SPDX-License-Identifier: Apache-2.0
"""Plugin manager of a real node: registers the plugins whose sockets are in `plugins_registry`.

sockets: desired state ─▶ plugin_manager: loop, back-off ─▶ registration: GetInfo, NotifyRegistrationStatus
                                                                └─▶ handlers, by the type of a plugin
"""

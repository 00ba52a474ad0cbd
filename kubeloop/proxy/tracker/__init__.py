# SPDX-License-Identifier: Apache-2.0
"""Change trackers: keep the latest Services and EndpointSlices, and the names of those that changed since a sync."""

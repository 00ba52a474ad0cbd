# SPDX-License-Identifier: Apache-2.0
"""Images of a real node: names, and records of pulls that tell which pods may use an image that is present.

image manager ─▶ pull manager ─ pull policies: must credentials be verified? ─ pull records: files ◀─ image GC
"""

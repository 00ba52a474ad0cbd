# SPDX-License-Identifier: Apache-2.0
"""Policies of a job: pod failure policy, success policy and backoff. Pure."""

# SPDX-License-Identifier: Apache-2.0
"""Differential tests: sends generated requests to two API servers and reports where the answers differ.

    seeds, OpenAPI ──▶ generator: cases of a few requests ──▶ both servers ──▶ fold ──▶ compare
                                                                                       │ difference
                                                        report, by class ◀── shrink ◀──┘

The tool starts no server; it is pointed at two kubeconfigs (`python -m tools.differential --help`).
"""

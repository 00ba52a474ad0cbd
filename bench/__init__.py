# SPDX-License-Identifier: Apache-2.0
"""Measures the program from the outside, over TLS, as a client sees it: `make bench`."""

# SPDX-License-Identifier: Apache-2.0
"""Functions that expressions may call, one module per library; upstream's names and overloads.

Each module has a table `FUNCTIONS`: a name to its overloads, with parameters, result, implementation and cost.
"""

# SPDX-License-Identifier: Apache-2.0
"""Cost limits of CEL expressions: static estimates and runtime budgets.

checked tree ─▶ estimator.estimate_cost ─▶ call_costs ─▶ ranges; at run time budget and uncharged_work.
"""

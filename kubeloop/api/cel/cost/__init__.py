"""Cost limits of CEL expressions: static estimates and runtime budgets.

checked tree ─▶ actual_costs.estimated_cost ─▶ call_costs ─▶ estimates.Range; at run time budget and uncharged_work.
"""

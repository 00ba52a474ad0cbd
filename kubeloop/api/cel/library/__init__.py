"""The functions that expressions may call, one file a library; upstream's names and overloads.

Each module has a table `FUNCTIONS`: a name to its overloads, with what they take, give, do and cost.
"""

"""Process-level building blocks of the programs.

foreground.py: runs a server until a signal. elected.py: the same with leader election, for managers and the scheduler
files.py: atomic writes. json_log.py: log format.
"""

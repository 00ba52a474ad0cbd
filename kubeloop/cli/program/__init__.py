# SPDX-License-Identifier: Apache-2.0
"""Process-level building blocks of the programs.

foreground.py: runs a server until a signal. elected_program.py: the same with leader election and the JSON log
format, for managers and the scheduler. files.py: atomic writes.
"""

# SPDX-License-Identifier: Apache-2.0
"""Compiled expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kubeloop.api.cel.check.checker import check
from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.compiler import Compiler
from kubeloop.api.cel.cost.budget import SHARED_BUDGET
from kubeloop.api.cel.environment import Environment
from kubeloop.api.cel.evaluation import ExecutionFrame
from kubeloop.api.cel.parse.parser import parse
from kubeloop.api.cel.parse.syntax import CompileError, CompileIssue, Expr
from kubeloop.api.cel.values import Cancelled, CelError

CALL_LIMIT: Final = 1_000_000  # upstream's limit of one evaluation


class Program:
    """Compiled expression, which can be evaluated any number of times."""

    __slots__ = ("_run", "_size", "text", "tree", "type")

    def __init__(self, text: str, tree: Expr, type: Type) -> None:
        self.text = text
        self.tree = tree
        self.type = type
        compiler = Compiler()
        self._run = compiler.visit(tree)
        self._size = compiler.size

    def evaluate(self, variables: Mapping[str, Any], limit: int = CALL_LIMIT) -> tuple[Any, int]:
        """Return the value and its cost. Raises CelError, with the cost as `cost`, or `BudgetExceeded`."""
        frame = ExecutionFrame(variables, limit, self._size, SHARED_BUDGET.get())
        try:
            return self._run(frame), frame.cost
        except CelError as error:
            error.cost = frame.cost
            raise
        except RecursionError:
            raise Cancelled("operation cancelled: nested too deeply") from None
        finally:
            frame.charge_shared_budget()


def compile_expression(text: str, environment: Environment) -> Program:
    """Compile an expression. Raises CompileError, or CelError if literals can't be converted."""
    tree = parse(text)
    found = check(text, tree, environment)
    problems = [problem for check_tree in environment.checks for problem in check_tree(tree)]
    if problems:
        raise CompileError(text, problems)
    try:
        return Program(text, tree, found)
    except RecursionError:
        raise CompileError(text, [CompileIssue(0, "expression is nested too deeply")]) from None

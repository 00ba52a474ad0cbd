# SPDX-License-Identifier: Apache-2.0
"""Visitor of syntax trees, with one method per kind of node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kubeloop.api.cel.parse.syntax import (
    BindExpr,
    CallExpr,
    ComprehensionExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
)

R = TypeVar("R")


class Visitor(ABC, Generic[R]):
    """Base of visitors; returns one result per node."""

    def visit(self, node: Expr) -> R:
        """Return the result for a node, by its kind."""
        match node:
            case LiteralExpr():
                return self._literal(node)
            case IdentExpr():
                return self._ident(node)
            case SelectExpr():
                return self._select(node)
            case CallExpr():
                return self._call(node)
            case ListExpr():
                return self._list(node)
            case MapExpr():
                return self._map(node)
            case StructExpr():
                return self._object(node)
            case ComprehensionExpr():
                return self._fold(node)
            case BindExpr():
                return self._bind(node)
        raise TypeError(type(node))

    @abstractmethod
    def _literal(self, node: LiteralExpr) -> R: ...

    @abstractmethod
    def _ident(self, node: IdentExpr) -> R: ...

    @abstractmethod
    def _select(self, node: SelectExpr) -> R: ...

    @abstractmethod
    def _call(self, node: CallExpr) -> R: ...

    @abstractmethod
    def _list(self, node: ListExpr) -> R: ...

    @abstractmethod
    def _map(self, node: MapExpr) -> R: ...

    @abstractmethod
    def _object(self, node: StructExpr) -> R: ...

    @abstractmethod
    def _fold(self, node: ComprehensionExpr) -> R: ...

    @abstractmethod
    def _bind(self, node: BindExpr) -> R: ...

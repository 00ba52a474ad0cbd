"""Visitor of syntax trees, with one method per kind of node."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from kubeloop.api.cel.parse.syntax import (
    Bind,
    Call,
    Fold,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    ObjectNode,
    Select,
)

R = TypeVar("R")


class Visitor(ABC, Generic[R]):
    """Base of visitors; returns one result per node."""

    def visit(self, node: Node) -> R:
        """Return the result for a node, by its kind."""
        match node:
            case Literal():
                return self._literal(node)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case ObjectNode():
                return self._object(node)
            case Fold():
                return self._fold(node)
            case Bind():
                return self._bind(node)
        raise TypeError(type(node))

    @abstractmethod
    def _literal(self, node: Literal) -> R: ...

    @abstractmethod
    def _ident(self, node: Ident) -> R: ...

    @abstractmethod
    def _select(self, node: Select) -> R: ...

    @abstractmethod
    def _call(self, node: Call) -> R: ...

    @abstractmethod
    def _list(self, node: ListNode) -> R: ...

    @abstractmethod
    def _map(self, node: MapNode) -> R: ...

    @abstractmethod
    def _object(self, node: ObjectNode) -> R: ...

    @abstractmethod
    def _fold(self, node: Fold) -> R: ...

    @abstractmethod
    def _bind(self, node: Bind) -> R: ...

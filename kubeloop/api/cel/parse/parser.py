# SPDX-License-Identifier: Apache-2.0
"""Parser from text to a syntax tree."""

from __future__ import annotations

from typing import Final

from kubeloop.api.cel.parse.lexer import END, LexerToken, fits_int64, tokenize
from kubeloop.api.cel.parse.macros import MACROS, MacroError
from kubeloop.api.cel.parse.syntax import (
    CallExpr,
    CompileError,
    CompileIssue,
    EntryExpr,
    Expr,
    IdentExpr,
    ListExpr,
    LiteralExpr,
    MapExpr,
    SelectExpr,
    StructExpr,
)

MAX_DEPTH: Final = 100  # nested brackets: visitors of the tree must not exhaust the stack
MAX_LENGTH: Final = 100_000

# Operators by precedence, loosest first, with the function that each calls.
_LEVELS: Final[tuple[dict[str, str], ...]] = (
    {"||": "_||_"},
    {"&&": "_&&_"},
    {"<": "_<_", "<=": "_<=_", ">=": "_>=_", ">": "_>_", "==": "_==_", "!=": "_!=_", "in": "@in"},
    {"+": "_+_", "-": "_-_"},
    {"*": "_*_", "/": "_/_", "%": "_%_"},
)
_BINDING: Final = {mark: level for level, marks in enumerate(_LEVELS) for mark in marks}
_FUNCTIONS: Final = {mark: function for marks in _LEVELS for mark, function in marks.items()}
_TIGHTEST: Final = len(_LEVELS)
_UNARY: Final = {"!": "!_", "-": "-_"}
_VARIADIC: Final = ("_||_", "_&&_")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_RESERVED: Final = frozenset(
    ("as", "break", "const", "continue", "else", "for", "function", "if", "import", "in", "let", "loop", "namespace",
     "package", "return", "var", "void", "while")
)  # fmt: skip


def parse(text: str) -> Expr:
    """Parse an expression into a syntax tree. Raises CompileError."""
    if len(text) > MAX_LENGTH:
        raise CompileError(
            text[:100],
            [CompileIssue(0, f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}")],
        )
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._words = tokenize(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Expr:
        node = self._expression()
        if self._peek.kind != "end":
            is_last = self._words[self._next + 1].kind == "end"
            raise self._unexpected(END, "extraneous" if is_last else "mismatched")
        return node

    # Tokens.

    @property
    def _peek(self) -> LexerToken:
        return self._words[self._next]

    def _take(self) -> LexerToken:
        word = self._words[self._next]
        self._next += 1
        return word

    def _is(self, mark: str) -> bool:
        word = self._words[self._next]
        return word.kind == "mark" and word.text == mark

    def _accept(self, mark: str) -> LexerToken | None:
        return self._take() if self._is(mark) else None

    def _expect(self, mark: str) -> LexerToken:
        if not self._is(mark):
            raise self._unexpected(f"'{mark}'")
        return self._take()

    def _name(self) -> LexerToken:
        word = self._peek
        if word.kind != "name" or word.text in _CONSTANTS or word.text == "in":
            raise self._unexpected("IDENTIFIER")
        return self._take()

    def _unexpected(self, wanted: str, how: str = "mismatched") -> CompileError:
        return self._error(self._peek.offset, f"Syntax error: {how} input '{self._peek.text}' expecting {wanted}")

    def _error(self, offset: int, message: str) -> CompileError:
        return CompileError(self._text, [CompileIssue(offset, message)])

    # Operators.

    def _expression(self) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(self._peek.offset, f"expression recursion limit exceeded: {MAX_DEPTH}")
        node = self._operators(0)
        if mark := self._accept("?"):
            yes = self._operators(0)
            self._expect(":")
            node = CallExpr(mark.offset, "_?_:_", None, [node, yes, self._expression()])
        self._depth -= 1
        return node

    def _operators(self, loosest: int) -> Expr:
        """Parse operators that bind at least as tightly as a level."""
        left = self._unary()
        while (level := self._level()) >= loosest:
            word = self._take()
            function = _FUNCTIONS[word.text]
            right = self._operators(level + 1)
            if function in _VARIADIC and isinstance(left, CallExpr) and left.function == function:
                left.args.append(right)  # a flat call, not a tree as deep as the chain
            else:
                left = CallExpr(word.offset, function, None, [left, right])
        return left

    def _level(self) -> int:
        word = self._peek
        return _BINDING.get(word.text, -1) if word.kind == "mark" or word.text == "in" else -1

    def _unary(self) -> Expr:
        word = self._peek
        if word.kind != "mark" or word.text not in _UNARY:
            return self._member()
        marks = []
        while self._is(word.text):
            marks.append(self._take())
        if word.text == "-" and self._peek.kind == "literal" and _is_signed(self._peek.value):
            self._words[self._next] = _negative(self._peek, marks.pop().offset)
        node = self._member()
        return CallExpr(word.offset, _UNARY[word.text], None, [node]) if len(marks) % 2 else node

    # Operands.

    def _member(self) -> Expr:
        node = self._primary()
        while self._peek.kind == "mark":
            if mark := self._accept("."):
                node = self._selected(node, mark)
            elif mark := self._accept("["):
                node = self._indexed(node, mark)
            elif self._is("{") and (name := _qualified(node)):
                node = self._object(name)
            else:
                break
        return node

    def _selected(self, node: Expr, mark: LexerToken) -> Expr:
        if self._peek.kind not in ("name", "quoted") and not self._is("?"):
            given = self._peek.text.removesuffix(END)
            raise self._error(self._peek.offset, f"Syntax error: no viable alternative at input '.{given}'")
        if self._accept("?"):
            field = self._field()
            return CallExpr(mark.offset, "_?._", None, [node, LiteralExpr(field.offset, field.text)])
        field = self._field()
        if field.kind == "name" and (opening := self._accept("(")):
            return self._call(opening, field.text, node)
        return SelectExpr(mark.offset, node, field.text)

    def _field(self) -> LexerToken:
        return self._take() if self._peek.kind == "quoted" else self._name()

    def _indexed(self, node: Expr, mark: LexerToken) -> Expr:
        function = "_[?_]" if self._accept("?") else "_[_]"
        index = self._expression()
        self._expect("]")
        return CallExpr(mark.offset, function, None, [node, index])

    def _primary(self) -> Expr:
        word = self._peek
        match word.kind, word.text:
            case "literal", _:
                return self._literal()
            case "name", "true" | "false" | "null":
                return LiteralExpr(self._take().offset, _CONSTANTS[word.text])
            case ("name", _) | ("mark", "."):
                return self._named()
            case "mark", "(":
                self._take()
                node = self._expression()
                self._expect(")")
                return node
            case "mark", "[":
                return self._list()
            case "mark", "{":
                return self._map()
            case _:
                raise self._unexpected("{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, "
                                       "NUM_UINT, STRING, BYTES, IDENTIFIER}")  # fmt: skip

    def _literal(self) -> Expr:
        word = self._take()
        if _is_signed(word.value) and isinstance(word.value, int) and not fits_int64(word.value):
            raise self._error(word.offset, "invalid int literal")
        return LiteralExpr(word.offset, word.value)

    def _named(self) -> Expr:
        leading = self._accept(".")
        word = self._name()
        if word.text in _RESERVED:
            raise self._error(word.offset, f"reserved identifier: {word.text}")
        name = f".{word.text}" if leading else word.text
        if opening := self._accept("("):
            return self._call(opening, name, None)
        return IdentExpr(leading.offset if leading else word.offset, name)

    def _call(self, opening: LexerToken, name: str, target: Expr | None) -> Expr:
        args: list[Expr] = []
        while not self._is(")"):
            args.append(self._expression())
            if not self._accept(","):
                break
        self._expect(")")
        macro = MACROS.get((name, len(args), target is not None))
        if macro is not None:
            try:
                expanded = macro(opening.offset, target, args)
            except MacroError as error:
                raise self._error(error.offset, str(error)) from None
            if expanded is not None:
                return expanded
        return CallExpr(opening.offset, name, target, args)

    def _list(self) -> Expr:
        opening = self._take()
        elements: list[Expr] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListExpr(opening.offset, elements, frozenset(optional))

    def _map(self) -> Expr:
        opening = self._take()
        entries: list[EntryExpr] = []
        while not self._is("}"):
            is_optional = self._accept("?") is not None
            key = self._expression()
            colon = self._expect(":")
            entries.append(EntryExpr(colon.offset, key, self._expression(), is_optional))
            if not self._accept(","):
                break
        self._expect("}")
        return MapExpr(opening.offset, entries)

    def _object(self, name: str) -> Expr:
        opening = self._take()
        entries: list[EntryExpr] = []
        while not self._is("}"):
            is_optional = self._accept("?") is not None
            field = self._field()
            colon = self._expect(":")
            entries.append(EntryExpr(colon.offset, field.text, self._expression(), is_optional))
            if not self._accept(","):
                break
        self._expect("}")
        return StructExpr(opening.offset, name, entries)


def _is_signed(value: object) -> bool:
    return type(value) in (int, float)


def _negative(word: LexerToken, offset: int) -> LexerToken:
    return word._replace(value=-word.value, text=f"-{word.text}", offset=offset)


def _qualified(node: Expr) -> str:
    """Return the qualified name that a chain of fields spells; empty if it is anything else."""
    if isinstance(node, IdentExpr):
        return node.name
    if isinstance(node, SelectExpr) and not node.is_test and (prefix := _qualified(node.operand)):
        return f"{prefix}.{node.field}"
    return ""

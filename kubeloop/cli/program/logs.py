# SPDX-License-Identifier: Apache-2.0
"""Log output of the programs: klog's text format or JSON; repeated lines are counted, tracebacks shown once."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Hashable
from datetime import datetime
from typing import Any, Final

from kubeloop.cli.flags.types import non_negative_count
from kubeloop.runtime.structured_log import LogMessage

FORMATS: Final = ("text", "json")
_INFO, _DEBUG = 2, 4  # upstream's levels of --v
_REPEAT_SECONDS: Final = 300.0  # in which an equal line is counted instead of written
_MOST_LINES: Final = 1000  # remembered at a time
# Fields that differ from one repetition to the next.
_VARIABLE: Final = frozenset(("retryAfter", "attempt"))


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about the log."""
    parser.add_argument(
        "--logging-format",
        choices=FORMATS,
        default="text",
        help="format of the log: text (klog) or json (default: text)",
    )
    parser.add_argument(
        "-v",
        "--v",
        type=non_negative_count,
        default=0,
        metavar="LEVEL",
        help="verbosity of the log: 2 shows progress, repetitions and all tracebacks, 4 shows details (default: 0)",
    )


def configure_logging(output: str = "text", verbosity: int = 0, level: int = logging.WARNING) -> None:
    """Write the log to stderr; `level` is that of kubeloop's loggers at verbosity 0."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if output == "json" else KlogFormatter())
    if verbosity < _INFO:
        handler.addFilter(RepetitionFilter())
    logging.basicConfig(handlers=[handler])
    wanted = logging.DEBUG if verbosity >= _DEBUG else logging.INFO if verbosity >= _INFO else level
    logging.getLogger("kubeloop").setLevel(wanted)


class RepetitionFilter(logging.Filter):
    """Drops lines that repeat one of the last minutes, and tracebacks of a cause that was shown before.

    The next equal line after that time carries the number of those that were dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[Hashable, tuple[float, int]] = {}  # when it was last written, and how often dropped since
        self._causes: set[Hashable] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record is to be written; may change it."""
        if record.levelno < logging.WARNING:
            return True
        key = (record.name, record.levelno, _identity(record))
        written, dropped = self._lines.pop(key, (0.0, 0))
        if record.created - written < _REPEAT_SECONDS:
            self._lines[key] = (written, dropped + 1)
            return False
        self._lines[key] = (record.created, 0)
        if len(self._lines) > _MOST_LINES:
            del self._lines[next(iter(self._lines))]
        if dropped:
            record.repeated = dropped
        self._shorten(record)
        return True

    def _shorten(self, record: logging.LogRecord) -> None:
        """Replace the traceback of a known cause by its last line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return
        cause = _cause(error)
        if cause in self._causes:
            record.exc_info = None
            record.error = f"{type(error).__name__}: {error}"
        self._causes.add(cause)


def _identity(record: logging.LogRecord) -> Hashable:
    if isinstance(record.msg, LogMessage):
        fields = record.msg.fields
        return record.msg.text, tuple(item for item in fields.items() if item[0] not in _VARIABLE)
    return record.getMessage()


def _cause(error: BaseException) -> Hashable:
    """Return what two errors of one cause have in common: their type and where they were raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno) if trace is not None else None
    return type(error), place


def _additions(record: logging.LogRecord) -> dict[str, Any]:
    """Return what the filter has added to a record."""
    found = {"err": getattr(record, "error", None), "repeated": getattr(record, "repeated", None)}
    return {name: value for name, value in found.items() if value is not None}


class KlogFormatter(logging.Formatter):
    """Formats records as klog does: `W1117 21:31:19.123456    4711 controller.py:281] "Reconcile failed" …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line, and a traceback below it."""
        moment = datetime.fromtimestamp(record.created)
        head = f"{record.levelname[0]}{moment:%m%d %H:%M:%S.%f} {record.process:>7} {record.filename}:{record.lineno}]"
        more = "".join(f" {name}={json.dumps(value)}" for name, value in _additions(record).items())
        line = f"{head} {record.getMessage()}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """Formats records as JSON objects with the keys of upstream's `--logging-format=json`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as one line of JSON."""
        message = record.msg if isinstance(record.msg, LogMessage) else None
        line: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "caller": f"{record.filename}:{record.lineno}",
            "msg": message.text if message is not None else record.getMessage(),
            **(message.fields if message is not None else {}),
            **_additions(record),
        }
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line)

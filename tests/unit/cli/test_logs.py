# SPDX-License-Identifier: Apache-2.0
"""Tests of the programs' log lines: klog's text form, JSON, counted repetitions, and tracebacks shown once."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable

import pytest

from kubeloop.cli.program.logs import JsonFormatter, KlogFormatter, RepetitionFilter
from kubeloop.runtime.structured_log import LogMessage


def record(message: object, *, at: float = 0.0, error: BaseException | None = None) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("kubeloop.x", logging.WARNING, "/a/controller.py", 281, message, (), info)  # type: ignore[arg-type]
    made.created = 1000.0 + at
    return made


def raised(make: Callable[[], object]) -> BaseException:
    try:
        make()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


FAILED = LogMessage("Reconcile failed", controller="job", object="default/a", reason=None, err='said "no"')


def test_text_has_klogs_header_and_structured_fields() -> None:
    line = KlogFormatter().format(record(FAILED))
    head = r"W\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ controller\.py:281\] "
    assert re.fullmatch(head + r'"Reconcile failed" controller="job" object="default/a" err="said \\"no\\""', line)


def test_json_has_a_key_for_each_field() -> None:
    line = json.loads(JsonFormatter().format(record(FAILED)))
    assert line | {"ts": 0} == {
        "ts": 0,
        "level": "warning",
        "logger": "kubeloop.x",
        "caller": "controller.py:281",
        "msg": "Reconcile failed",
        "controller": "job",
        "object": "default/a",
        "err": 'said "no"',
    }


def test_repetitions_are_counted_and_not_written() -> None:
    only = RepetitionFilter()

    def seen(at: float, retry: str = "1s", name: str = "a") -> logging.LogRecord | None:
        made = record(LogMessage("Reconcile failed", object=name, retryAfter=retry), at=at)
        return made if only.filter(made) else None

    assert seen(0) is not None
    assert [seen(1, "2s"), seen(3, "4s"), seen(299)] == [None] * 3
    assert seen(4, name="b") is not None
    later = seen(301)
    assert later is not None
    assert KlogFormatter().format(later).endswith(" repeated=3")
    assert json.loads(JsonFormatter().format(later))["repeated"] == 3


def test_traceback_of_one_cause_is_shown_once() -> None:
    only = RepetitionFilter()

    def shown(name: str, error: BaseException) -> str:
        made = record(LogMessage("Reconcile failed", object=name), error=error)
        assert only.filter(made)
        return KlogFormatter().format(made)

    def fail(text: str) -> BaseException:
        return raised(lambda: int(text))

    assert "Traceback" in shown("a", fail("x"))
    assert "Traceback" in shown("b", raised(lambda: [][0]))
    line = shown("c", fail("y"))
    assert "Traceback" not in line
    assert "ValueError: invalid literal for int() with base 10: 'y'" in line


def test_messages_below_warnings_are_never_dropped() -> None:
    only = RepetitionFilter()
    for _ in range(2):
        made = record("progress")
        made.levelno = logging.INFO
        assert only.filter(made)


def test_message_reads_as_text_for_every_other_handler(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("kubeloop.test").warning(FAILED)
    assert '"Reconcile failed" controller="job"' in caplog.text

"""Log lines as JSON objects, with the keys of upstream's `--logging-format=json`."""

from __future__ import annotations

import json
import logging


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": round(record.created * 1000, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["err"] = self.formatException(record.exc_info)
        return json.dumps(line)

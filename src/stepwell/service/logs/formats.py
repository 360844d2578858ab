"""A log record as one line of text or as one JSON object. Neither shows a password, and no data can forge a line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Final

from stepwell.model.plain_text import escaped
from stepwell.model.redaction import redacted

# What a record of a run carries: `StepLogFilter` adds it to the records of the job's code.
STEP_FIELDS: Final = ("step_id", "workflow_id", "action", "attempt", "state", "duration")
# Before every further line of a traceback: such a line cannot be taken for a record.
_INDENT: Final = "    | "


class TextFormatter(logging.Formatter):
    """Time in UTC, level, step, attempt and workflow, message."""

    def format(self, record: logging.LogRecord) -> str:
        lines = [f"{_time(record)} {record.levelname} {_step(record)}{_message(record)}"]
        return "\n".join(lines + [f"{_INDENT}{escaped(line)}" for line in _details(record).splitlines()])


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with the fields of the step if the record is about one."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": redacted(_raw_message(record)),
        }
        fields |= {name: getattr(record, name) for name in STEP_FIELDS if getattr(record, name, None) is not None}
        fields["pid"] = record.process
        if details := _details(record):
            fields["exception"] = details
        text = json.dumps(fields, ensure_ascii=False, default=str)
        # JSON escapes only the oldest control characters.
        return text if text.isprintable() else "".join(sign if sign.isprintable() else _json(sign) for sign in text)


FORMATTERS: Final = {"text": TextFormatter, "json": JsonFormatter}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _raw_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the arguments do not fit the message, or cannot be printed
        return f"{record.msg!r} cannot be formatted: {type(error).__name__}"


def _message(record: logging.LogRecord) -> str:
    return escaped(redacted(_raw_message(record)))


def _step(record: logging.LogRecord) -> str:
    step_id, workflow_id = getattr(record, "step_id", None), getattr(record, "workflow_id", None)
    workflow = "" if workflow_id is None else f"workflow {workflow_id}"
    if step_id is None:
        return ""
    if record.name == "stepwell.worker":  # whose messages name the step themselves
        return f"[{workflow}] " if workflow else ""
    step = f"step {step_id} attempt {getattr(record, 'attempt', '?')}"
    return f"[{step} {workflow}] " if workflow else f"[{step}] "


def _details(record: logging.LogRecord) -> str:
    """The traceback and the stack of a record."""
    parts = []
    if record.exc_info and not record.exc_text:
        try:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        except Exception:
            record.exc_text = "<its traceback cannot be printed>"
    for text in (record.exc_text, record.stack_info):
        if text:
            parts.append(redacted(text))
    return "\n".join(parts)


def _json(sign: str) -> str:
    return json.dumps(sign)[1:-1]

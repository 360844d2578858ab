"""`config/dispatcher.yaml`: the settings of a cron dispatcher, under the names that it had before Stepwell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

CRON_FILE: Final = Path("config/dispatcher.yaml")
SECTION: Final = "dispatcher"
KEYS: Final = ("poll_interval_seconds", "max_sleep_seconds", "min_cron_interval_seconds")


@dataclass(frozen=True, slots=True)
class CronValue:
    """One key of the file, with its line."""

    key: str
    value: Any
    line: int

    @property
    def where(self) -> str:
        return f"{CRON_FILE}:{self.line}"


class UnreadableCronFile(Exception):
    """The file cannot be used; the message says why."""


def read_cron_file() -> Iterator[CronValue]:
    """Everything below `dispatcher:`; nothing without the file, or if it is about something else."""
    try:
        text = CRON_FILE.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableCronFile(f"{CRON_FILE}: cannot be read: {error}") from None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = YAML().load(text)
    except YAMLError as error:
        raise UnreadableCronFile(f"{CRON_FILE}: not valid YAML: {' '.join(str(error).split())}") from None
    section: Any = found.get(SECTION) if isinstance(found, dict) else None
    if isinstance(section, dict):
        lines: Any = getattr(section, "lc", None)  # where ruamel.yaml read it
        for key, value in section.items():
            yield CronValue(str(key), value, lines.key(key)[0] + 1)

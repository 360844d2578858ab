"""Loading a `Config` from the file and the environment; all problems are reported in one error."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from stepwell.model.errors import ConfigError
from stepwell.model.plain_text import escaped
from stepwell.service.config import cron_yaml, problems
from stepwell.service.config.config import Config, Origin
from stepwell.service.config.document import Document, Unreadable, read_document
from stepwell.service.config.kinds import BadValue
from stepwell.service.config.setting import Setting
from stepwell.service.config.settings import all_settings, sections

# Kubernetes sets these for a service that is named, say, stepwell-worker.
_SERVICE_LINK: Final = re.compile(r"STEPWELL_\w*?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_\w+)?)")


def load_config(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Config:
    """Read the file (`path`, else STEPWELL_CONFIG, else stepwell.toml if it exists); the environment overrides it.

    `config/dispatcher.yaml`, if it exists, comes before both.

    Raises one `ConfigError` with all problems of both.

    >>> config = load_config(Path(os.devnull), {"STEPWELL_WORKER_SLOTS": "4"})
    >>> config.worker.slots, str(config.origin("worker.slots"))
    (4, 'STEPWELL_WORKER_SLOTS')
    """
    reading = _Reading()
    reading.read_cron_file()
    try:
        reading.read_file(read_document(path, environ))
    except Unreadable as error:
        reading.problems.append(str(error))
    reading.read_environment(environ)
    return reading.config()


def load_setting(name: str, environ: Mapping[str, str] = os.environ) -> Any:
    """The value of one setting, for a program that no command has configured.

    What is wrong with other settings is left to the commands: it is no reason for a program to fail.

    >>> load_setting("app.environment", {"STEPWELL_ENV": "production"})
    'production'
    """
    (setting,) = (setting for setting in all_settings() if setting.name == name)
    reading = _Reading()
    if not environ.get(setting.variable):
        try:
            reading.read_key(read_document(None, environ), setting)
        except Unreadable as error:
            reading.problems.append(str(error))
    reading.read_variable(setting, environ)
    return reading.config().value(name)


class _Reading:
    """Collects values, where they were set, and problems."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._values: dict[str, dict[str, Any]] = {section: {} for section in sections()}
        self._origins: dict[str, Origin] = {}

    def config(self) -> Config:
        """What was read; raises `ConfigError` with all problems."""
        if self.problems:
            raise ConfigError(*map(escaped, self.problems))
        made = {section: struct(**self._values[section]) for section, struct in sections().items()}
        return Config(**made, origins=self._origins)

    def read_cron_file(self) -> None:
        """The settings of schedulers in `config/dispatcher.yaml`; those of stepwell.toml win."""
        settings = {setting.key: setting for setting in all_settings() if setting.section == "scheduler"}
        try:
            for found in cron_yaml.read_cron_file():
                if found.key not in cron_yaml.KEYS:
                    known = ", ".join(cron_yaml.KEYS)
                    self.problems.append(f"{found.where}: {found.key}: unknown setting; valid settings: {known}")
                    continue
                setting = settings[found.key]
                try:
                    self._set(setting, setting.kind.read(found.value), Origin("file", found.where))
                except BadValue as error:
                    self.problems += [f"{found.where}: {problems.of_value(setting, flaw)}" for flaw in error.flaws]
        except cron_yaml.UnreadableCronFile as error:
            self.problems.append(str(error))

    def read_file(self, document: Document) -> None:
        settings = {(setting.section, setting.key): setting for setting in all_settings()}
        found: list[tuple[int, str]] = []
        for section, table in document.tables.items():
            if not isinstance(table, dict):
                found.append(self._at(document, problems.of_key_without_section(section, table), section))
            elif section not in sections():
                found.append(self._at(document, problems.of_unknown_section(section), section))
            else:
                for key, value in table.items():
                    if (setting := settings.get((section, key))) is None:
                        found.append(self._at(document, problems.of_unknown_key(section, key), section, key))
                    else:
                        found += self._read_value(document, setting, value)
        self.problems += [problem for _, problem in sorted(found, key=lambda item: item[0])]

    def read_key(self, document: Document, setting: Setting) -> None:
        """One setting of the file, whatever else is in it."""
        table = document.tables.get(setting.section)
        if isinstance(table, dict) and setting.key in table:
            self.problems += [problem for _, problem in self._read_value(document, setting, table[setting.key])]

    def _read_value(self, document: Document, setting: Setting, value: object) -> list[tuple[int, str]]:
        place = (setting.section, setting.key)
        try:
            read = setting.kind.read(value)
        except BadValue as error:
            return [self._at(document, problems.of_value(setting, flaw), *place, *flaw.at) for flaw in error.flaws]
        self._set(setting, read, Origin("file", document.where(*place)))
        return []

    def _at(self, document: Document, problem: str, *place: str | int) -> tuple[int, str]:
        return document.lines.of(place) or 0, f"{document.where(*place)}: {problem}"

    def read_environment(self, environ: Mapping[str, str]) -> None:
        for setting in all_settings():
            self.read_variable(setting, environ)
        self.problems += [problems.of_unknown_variable(name) for name in sorted(environ) if _is_misspelt(name)]

    def read_variable(self, setting: Setting, environ: Mapping[str, str]) -> None:
        text = environ.get(setting.variable, "")
        if not text:  # as in click: an empty variable counts as unset
            return
        try:
            self._set(setting, setting.kind.read_text(text), Origin("environment", setting.variable))
        except BadValue as error:
            self.problems += [problems.of_variable(setting, text, flaw) for flaw in error.flaws]

    def _set(self, setting: Setting, value: Any, origin: Origin) -> None:
        self._values[setting.section][setting.key] = value
        self._origins[setting.name] = origin


def _is_misspelt(name: str) -> bool:
    """Whether it is meant as a setting. Other variables that start with STEPWELL_ may belong to other programs."""
    variables = [setting.variable for setting in all_settings()]
    if not name.startswith("STEPWELL_") or name in variables or _SERVICE_LINK.fullmatch(name):
        return False
    if any(name.startswith(f"STEPWELL_{section}_".upper()) for section in sections()):
        return True
    # The section may be misspelt as well. STEPWELL_DB and STEPWELL_APP are too short for a comparison.
    long_ones = [variable for variable in variables if variable.count("_") > 1]
    return bool(difflib.get_close_matches(name, long_ones, n=1, cutoff=0.9))

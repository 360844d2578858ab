"""Messages about invalid settings: one line each, with a hint how to fix it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final

from stepwell.service.config.kinds import Flaw, as_key, as_toml
from stepwell.service.config.setting import Setting
from stepwell.service.config.settings import all_settings, sections

_LONGEST_VALUE: Final = 60  # longer ones hide the message


def of_value(setting: Setting, flaw: Flaw) -> str:
    """An invalid value in the file.

    >>> of_value(all_settings()[-1], Flaw("loud", "a level"))
    '[log] level = "loud": expected a level'
    """
    shown = "" if setting.secret else f" = {_shorten(_show(flaw.value))}"
    return f"{_label(setting, flaw.at)}{shown}: expected {flaw.expected}"


def of_variable(setting: Setting, text: str, flaw: Flaw) -> str:
    """An invalid value in the environment.

    >>> of_variable(all_settings()[-1], "loud", Flaw("loud", "a level"))
    'STEPWELL_LOG_LEVEL = "loud": expected a level'
    """
    shown = "" if setting.secret else f" = {_shorten(as_toml(text))}"
    part = "".join(f"{key} = {_shorten(as_toml(flaw.value))}: " for key in flaw.at)
    return f"{setting.variable}{shown}: {part}expected {flaw.expected}"


def of_unknown_key(section: str, key: str) -> str:
    """An unknown key; if another section has it, the hint names that section.

    >>> of_unknown_key("worker", "slot"), of_unknown_key("worker", "rescues")
    ('[worker] slot: unknown setting; did you mean slots?', '[worker] rescues: unknown setting; did you mean [reaper] rescues?')
    """  # noqa: E501
    valid = [setting.key for setting in all_settings() if setting.section == section]
    near = _homes_of(key) or _near(key, valid)
    return f"[{section}] {as_key(key)}: unknown setting; {_hint(near, valid, 'settings')}"


def of_unknown_section(name: str) -> str:
    """A table that is not a section.

    >>> of_unknown_section("workers")
    '[workers]: unknown section; did you mean [worker]?'
    """
    near = [f"[{section}]" for section in _near(name, list(sections()))]
    valid = [f"[{section}]" for section in sections()]
    return f"[{as_key(name)}]: unknown section; {_hint(near, valid, 'sections')}"


def of_key_without_section(key: str, value: object) -> str:
    """A key at the top level. Its value is not shown: it may be a URL with a password.

    >>> of_key_without_section("rescues", 3), of_key_without_section("worker", 3)
    ('rescues: outside of a section; did you mean [reaper] rescues?', 'worker: expected a section, written as [worker]')
    """
    if key in sections():
        is_array = isinstance(value, list) and all(isinstance(item, dict) for item in value)
        return f"{f'[[{key}]]' if is_array else key}: expected a section, written as [{key}]"
    valid = [f"[{section}]" for section in sections()]
    return f"{as_key(key)}: outside of a section; {_hint(_homes_of(key), valid, 'sections')}"


def of_unknown_variable(name: str) -> str:
    """A variable that is meant as a setting, but names none.

    >>> of_unknown_variable("STEPWELL_WORKER_SLOT")
    'STEPWELL_WORKER_SLOT: unknown setting; did you mean STEPWELL_WORKER_SLOTS?'
    """
    for section in sections():
        if name.startswith(prefix := f"STEPWELL_{section}_".upper()):
            variables = {setting.key: setting.variable for setting in all_settings() if setting.section == section}
            near = [variables[key] for key in _near(name.removeprefix(prefix).lower(), list(variables))]
            return f"{name}: unknown setting; {_hint(near, list(variables.values()), 'variables')}"
    near = difflib.get_close_matches(name, [setting.variable for setting in all_settings()], n=1)
    return f"{name}: unknown setting; {_hint(near, [], 'variables')}"


def _homes_of(key: str) -> list[str]:
    """The settings with this key in any section, as `[section] key`."""
    return [f"[{setting.section}] {key}" for setting in all_settings() if setting.key == key]


def _near(word: str, valid: Sequence[str]) -> list[str]:
    """The most likely intended name: a longer one with this prefix, or one with a similar spelling."""
    longer = [name for name in valid if name.startswith(f"{word}_")]
    return longer[:1] or difflib.get_close_matches(word, valid, n=1)


def _hint(near: Sequence[str], valid: Sequence[str], what: str) -> str:
    return f"did you mean {' or '.join(near)}?" if near else f"valid {what}: {', '.join(valid)}"


def _label(setting: Setting, at: tuple[str | int, ...]) -> str:
    label = f"[{setting.section}] {setting.key}"
    for part in at:
        if isinstance(part, int):
            label += f", item {part + 1}"
        else:
            label = f"[{setting.section}.{setting.key}] {as_key(part)}"
    return label


def _show(value: object) -> str:
    return "a table" if isinstance(value, dict) else as_toml(value)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"

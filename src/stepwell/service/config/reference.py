"""The reference of all settings, as Markdown for docs/configuration.md."""

from __future__ import annotations

from stepwell.service.config.setting import Setting
from stepwell.service.config.settings import all_settings, sections


def settings_table() -> str:
    """A heading and a table for each section."""
    parts = []
    for section, struct in sections().items():
        rows = [
            f"| `{setting.key}` | {_default(setting)} | `{setting.variable}` | {setting.meaning} |"
            for setting in all_settings()
            if setting.section == section
        ]
        head = ["| setting | default | environment | meaning |", "|---|---|---|---|"]
        parts.append("\n".join([f"### `[{section}]`", "", str(struct.__doc__), "", *head, *rows]))
    return "\n\n".join(parts)


def _default(setting: Setting) -> str:
    return "unset" if setting.default is None else f"`{setting.show(setting.default)}`"

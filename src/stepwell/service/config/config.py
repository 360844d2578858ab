"""The configuration: typed values, and where each was set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stepwell.service.config.settings import Sections, all_settings


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was set: `stepwell.toml:12`, `STEPWELL_WORKER_SLOTS`, or nowhere."""

    kind: Literal["default", "file", "environment"]
    where: str = ""

    def __str__(self) -> str:
        return self.where or self.kind


_DEFAULT: Final = Origin("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Sections):
    """All settings. Read values as `config.worker.slots`, or by name if the name is data.

    >>> config = Config()
    >>> config.worker.lease_seconds, config.value("worker.lease_seconds"), str(config.origin("worker.lease_seconds"))
    (30.0, 30.0, 'default')
    """

    origins: Mapping[str, Origin] = field(default_factory=dict, repr=False, compare=False)

    def value(self, name: str) -> Any:
        """The value of the setting `section.key`."""
        if all(name != setting.name for setting in all_settings()):
            raise KeyError(name)
        section, _, key = name.partition(".")
        return getattr(getattr(self, section), key)

    def origin(self, name: str) -> Origin:
        """Where the value of the setting `section.key` comes from."""
        self.value(name)
        return self.origins.get(name, _DEFAULT)

    def default_map(self, **parameters: str) -> dict[str, Any]:
        """The default map of a click command: each parameter takes its default from the named setting.

        The command line overrides it. A parameter whose setting has no value is left out.

        >>> Config().default_map(lease="worker.lease_seconds", slots="worker.slots")
        {'lease': 30.0}
        """
        values = {parameter: self.value(name) for parameter, name in parameters.items()}
        return {parameter: value for parameter, value in values.items() if value is not None}

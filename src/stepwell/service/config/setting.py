"""The description of a setting, and the dataclass field that declares it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from stepwell.service.config.kinds import Kind, as_toml

D = TypeVar("D")
T = TypeVar("T")


def setting(
    default: D, kind: Kind[T], meaning: str, *, constant: str = "", variable: str = "", secret: bool = False
) -> D | T:
    """A field of a section.

    `constant` names the module and the constant that the default repeats (a test compares them), `variable` the
    environment variable if it is not STEPWELL_<SECTION>_<KEY>. The value of a secret setting is never shown.
    """
    about = {"kind": kind, "meaning": meaning, "constant": constant, "variable": variable, "secret": secret}
    if isinstance(default, dict):
        return field(default_factory=default.copy, repr=not secret, metadata=about)  # type: ignore[return-value]
    return field(default=default, repr=not secret, metadata=about)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting, as its field declares it."""

    section: str
    key: str
    default: Any
    kind: Kind[Any]
    meaning: str
    variable: str
    constant: str
    secret: bool

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    def show(self, value: Any) -> str:
        """A value in TOML syntax; "unset" if there is none, "(hidden)" if it may contain a password."""
        if value is None:
            return "unset"
        return "(hidden)" if self.secret and value != self.default else as_toml(value)


def settings_of(section: str, struct: Any) -> list[Setting]:
    """The settings that a struct declares."""
    defaults = struct()
    return [
        Setting(
            section=section,
            key=item.name,
            default=getattr(defaults, item.name),
            kind=item.metadata["kind"],
            meaning=item.metadata["meaning"],
            variable=item.metadata["variable"] or f"STEPWELL_{section}_{item.name}".upper(),
            constant=item.metadata["constant"],
            secret=item.metadata["secret"],
        )
        for item in fields(struct)
    ]

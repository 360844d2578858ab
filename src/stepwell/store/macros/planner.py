"""What keeps PostgreSQL's planner to one good plan."""

from __future__ import annotations

from typing import Final

from stepwell.store.macros.macro import POSTGRES, SQLITE, Macros

# The statistics of tables that fill and empty all day are always wrong, and each statement has one good plan for all
# parameters: by index, made once. Compiling a plan (`jit`) can take longer than running it.
KEEP_TO_INDEXES: Final = {
    "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}  # fmt: skip
_KEEP_TO_INDEXES: Final = "".join(f", set_config('{name}', '{to}', true)" for name, to in KEEP_TO_INDEXES.items())

MACROS_OF: Final[dict[str, Macros]] = {
    SQLITE: {"keep_to_indexes": ""},
    POSTGRES: {"keep_to_indexes": _KEEP_TO_INDEXES},
}

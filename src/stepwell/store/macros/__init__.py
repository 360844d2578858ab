"""The macros of the `.sql` files: syntax that differs between the databases, and text that several files share.

A macro starts with `@`. The database runs exactly the text of the file with its macros expanded. Text that only the
statements of one subject share is a macro in their file (`-- macro: lanes` in `sql/claims.sql`).
"""

from stepwell.store.macros.expansion import expand
from stepwell.store.macros.macro import POSTGRES, SQLITE, Macro, Macros
from stepwell.store.macros.planner import KEEP_TO_INDEXES

__all__ = ["KEEP_TO_INDEXES", "POSTGRES", "SQLITE", "Macro", "Macros", "expand"]

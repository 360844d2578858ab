"""Dynamic filters: WHERE clauses put together from a whitelist of columns, every value a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

COLUMNS: Final = {
    "state": "state",
    "group": '"group"',
    "queue": "queue",
    "action": "action",
    "type": "type",
    "parent": "parent_step_id",
    "block": "block_uuid",
    "relatable_type": "relatable_type",
    "relatable_id": "relatable_id",
}


def select_steps(dialect: str, filters: dict[str, Any], before: int | None, limit: int) -> tuple[str, dict[str, Any]]:
    """The newest steps that match, below a known id (keyset pages stay fast at any depth)."""

    def placeholder(name: str) -> str:
        return f":{name}" if dialect == "sqlite" else f"%({name})s"

    clauses, parameters = ["1 = 1"], dict[str, Any](limit=limit)
    for name, value in filters.items():
        if name == "workflow":
            at = placeholder("workflow")
            clauses.append(f"(uuid = {at} OR workflow_id = {at} AND workflow_id <> uuid)")
            parameters["workflow"] = value
            continue
        column = COLUMNS[name]
        values: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
        names = [f"{name}_{position}" for position in range(len(values))]
        among = f"IN ({', '.join(placeholder(item) for item in names)})"
        if name == "block":  # most are named after the only step in them, which its uuid finds
            clauses.append(f"(uuid {among} AND block_uuid = uuid OR block_uuid {among} AND block_uuid <> uuid)")
        else:
            clauses.append(f"{column} {among}")
        parameters |= dict(zip(names, values, strict=True))
    if before is not None:
        clauses.append(f"id < {placeholder('before')}")
        parameters["before"] = before
    return (
        f"SELECT * FROM steps WHERE {' AND '.join(clauses)} ORDER BY id DESC LIMIT {placeholder('limit')}",
        parameters,
    )

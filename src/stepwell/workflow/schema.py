"""JSON schemas: of the context of a workflow, and of the answer to a gate."""

from __future__ import annotations

from typing import Any

from stepwell.model.errors import StepwellError


class SchemaMismatch(StepwellError):
    """A value does not match its JSON schema."""


def check_value(value: Any, schema: Any, what: str) -> None:
    """Refuse a value that does not match a JSON schema; None accepts everything."""
    if schema is None:
        return
    import jsonschema  # imported here: few programs need it, and it takes 60 ms

    validator = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)(schema)
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    if error is not None:
        path = "".join(f"[{part!r}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise SchemaMismatch(f"{what}{path}: {error.message}")

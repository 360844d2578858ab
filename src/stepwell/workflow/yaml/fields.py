"""The keys of YAML, and what Python calls them."""

from __future__ import annotations

from typing import Final

from stepwell.workflow.declare.settings import READERS

# By the name in Python; `expires` and `result` are keys of `gate`.
YAML_NAMES: Final = {"arguments": "handler_config", "after": "depends_on_steps"}
SETTINGS: Final = {YAML_NAMES.get(key, key): key for key in READERS if key != "expires"}
WORKFLOW_KEYS: Final = (
    "name",
    "namespace",
    "version",
    "description",
    "context",
    "step_templates",
    "steps",
    "environments",
)
STEP_KEYS: Final = (
    "name",
    "description",
    "handler",
    "gate",
    "depends_on_step",
    "depends_on_steps",
    "inputs",
    "when",
    "each",
    "trigger",
    *SETTINGS,
)
GATE_KEYS: Final = ("result", "expires")
OVERRIDE_KEYS: Final = (*SETTINGS, "expires")
ENVIRONMENT_KEYS: Final = ("steps", "step_templates")
# What else people write.
MEANT: Final = {
    "after": "depends_on_steps",
    "depends_on": "depends_on_steps",
    "needs": "depends_on_steps",
    "arguments": "handler_config",
    "action": "handler",
    "handler_class": "handler",
    "retries": "retry_limit",
    "default_retry_limit": "retry_limit",
    "default_retryable": "retryable",
    "if": "when",
    "env": "environments",
    "schema": "context",
    "task_name": "name",
}

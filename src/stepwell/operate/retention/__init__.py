"""Retention: settled workflows are deleted or archived after a period."""

from stepwell.operate.retention.options import RetentionOptions, Rule
from stepwell.operate.retention.removing import Removed
from stepwell.operate.retention.retention import Retention
from stepwell.operate.retention.status import RetentionStatus

__all__ = ["Removed", "Retention", "RetentionOptions", "RetentionStatus", "Rule"]

"""Operator actions in bulk: previews, executions, undo."""

from stepwell.operate.operations.kinds import Kind, Undoing, refuses
from stepwell.operate.operations.operations import Operation, Operations, Preview, PreviewCounts, Progress

__all__ = ["Kind", "Operation", "Operations", "Preview", "PreviewCounts", "Progress", "Undoing", "refuses"]

"""Why a step is in its state: the values of `steps.reason` and of its history.

They are part of the public schema. In SQL they are literals, which a test compares with these.
"""

from __future__ import annotations

from typing import Final

# Ended together with a parent (phases 2, 3 and 6). An operator's retry of the parent returns them to Pending.
PARENT_SKIPPED: Final = "parent_skipped"
PARENT_CANCELLED: Final = "parent_cancelled"
PARENT_FAILED: Final = "parent_failed"
PARENT_NOT_RUNNABLE: Final = "parent_not_runnable"
ENDED_WITH_PARENT: Final = (PARENT_SKIPPED, PARENT_CANCELLED, PARENT_FAILED, PARENT_NOT_RUNNABLE)

PREDECESSOR_FAILED: Final = "predecessor_failed"
CHILDREN_FAILED: Final = "children_failed"
# What a tick ended because another step had ended.
CASCADED: Final = (*ENDED_WITH_PARENT, PREDECESSOR_FAILED, CHILDREN_FAILED)

DORMANT: Final = "dormant"
PROMOTED: Final = "promoted"
CHILDREN_CONCLUDED: Final = "children_concluded"
WAITING_FOR_CHILDREN: Final = "waiting_for_children"
MAX_RETRIES_REACHED: Final = "max_retries_reached"
REFUSED: Final = "refused"
UNREADABLE: Final = "unreadable"

ERROR: Final = "error"
BAD_ARGUMENTS: Final = "bad_arguments"
UNSTORABLE_RESULT: Final = "unstorable_result"
BAD_CHILDREN: Final = "bad_children"
NOT_VERIFIED: Final = "not_verified"
POISON: Final = "poison"

RETRY: Final = "retry"
NOT_COMPLETED: Final = "not_completed"
TIMED_OUT: Final = "timed_out"  # the last attempt of a cron job's execution
START_DEADLINE: Final = "start_deadline"  # a slot of a cron job was too late to begin
CHECK_AGAIN: Final = "double_check"
RESCUED: Final = "rescued"
RECOVERED: Final = "recovered"
THROTTLED: Final = "throttled"
HANDED_BACK: Final = "handed_back"
# Of declared workflows.
CONDITION_NOT_MET: Final = "condition_not_met"
INPUT_SKIPPED: Final = "input_skipped"
BYPASSED: Final = "bypassed"
COPIED: Final = "copied"
GATE_EXPIRED: Final = "gate_expired"
BAD_INPUT: Final = "bad_input"
WORKFLOW_CANCELLED: Final = "workflow_cancelled"
# Of tasks of main processes.
RESCHEDULED: Final = "rescheduled"

REVIVED: Final = "revived"
OPERATOR: Final = "operator"

# The engine uses these values itself: the same reason given by a job is prefixed with "job: ".
ENGINE_REASONS: Final = frozenset(CASCADED) | {
    DORMANT,
    PROMOTED,
    CHILDREN_CONCLUDED,
    WAITING_FOR_CHILDREN,
    MAX_RETRIES_REACHED,
    REFUSED,
    UNREADABLE,
    ERROR,
    BAD_ARGUMENTS,
    UNSTORABLE_RESULT,
    BAD_CHILDREN,
    NOT_VERIFIED,
    POISON,
    RETRY,
    NOT_COMPLETED,
    TIMED_OUT,
    START_DEADLINE,
    CHECK_AGAIN,
    RESCUED,
    RECOVERED,
    THROTTLED,
    HANDED_BACK,
    CONDITION_NOT_MET,
    INPUT_SKIPPED,
    BYPASSED,
    COPIED,
    GATE_EXPIRED,
    BAD_INPUT,
    WORKFLOW_CANCELLED,
    RESCHEDULED,
    REVIVED,
    OPERATOR,
}

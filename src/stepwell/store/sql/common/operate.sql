-- What people do to steps and to the dispatcher, each with who and why.

-- name: cancel_by_hand(id, actor, reason, now)
UPDATE steps SET state = 'Cancelled', reason = :reason, actor = :actor, completed_at = :now, updated_at = :now,
    changed_from = state
WHERE id = :id AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
RETURNING state;

-- name: fail_by_hand(id, actor, reason, now)
UPDATE steps SET state = 'Failed', reason = :reason, last_error = NULL, actor = :actor, completed_at = :now,
    updated_at = :now, changed_from = state
WHERE id = :id AND state IN ('Pending', 'Dispatched', 'Running')
RETURNING state;

-- name: stop_by_hand(id, actor, reason, now)
UPDATE steps SET state = 'Stopped', reason = :reason, last_error = NULL, actor = :actor, completed_at = :now,
    updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running'
RETURNING state;

-- name: skip_by_hand(id, actor, reason, now)
UPDATE steps SET state = 'Skipped', reason = :reason, actor = :actor, completed_at = :now, updated_at = :now,
    changed_from = state
WHERE id = :id AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable', 'Failed', 'Stopped', 'Cancelled')
RETURNING state;

-- name: complete_by_hand(id, actor, reason, response, now)
UPDATE steps SET state = 'Completed', reason = :reason, actor = :actor, response = :response,
    own_code_done_at = coalesce(own_code_done_at, :now), completed_at = :now, updated_at = :now, changed_from = state
WHERE id = :id AND state IN ('Pending', 'NotRunnable', 'Failed', 'Stopped', 'Cancelled')
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
RETURNING state;

-- name: put_to_sleep_again(id, actor, now)!
-- A handler that came back with its parent waits for a failure, as it did before.
UPDATE steps SET state = 'NotRunnable', reason = 'dormant', actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Pending' AND type = 'resolve-exception';

-- name: set_breaker(value, actor, reason, now)!
INSERT INTO settings (name, value, changed_by, reason, changed_at)
VALUES ('can_dispatch_steps', :value, :actor, :reason, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, reason = excluded.reason,
    changed_at = excluded.changed_at;

-- name: in_flight()
-- What must end before a restart is safe: handed to a queue, or running its own code.
SELECT a."group" AS "group", a.status, count(*) AS steps FROM steps_agenda a
WHERE a.status IN ('dispatched', 'running') GROUP BY a."group", a.status;

-- name: pause_workflow(workflow, actor, reason, now)!
INSERT INTO workflows (id, paused_at, paused_by, paused_reason) VALUES (:workflow, :now, :actor, :reason)
ON CONFLICT (id) DO UPDATE SET paused_at = excluded.paused_at, paused_by = excluded.paused_by,
    paused_reason = excluded.paused_reason;

-- name: resume_workflow(workflow)!
UPDATE workflows SET paused_at = NULL, paused_by = NULL, paused_reason = NULL
WHERE id = :workflow AND paused_at IS NOT NULL;

-- name: withdraw_workflow(workflow)!
-- Paused: what may run leaves the agenda, at the same moment.
DELETE FROM steps_agenda
WHERE status IN ('open', 'delayed', 'unchecked')
  AND step_id IN (SELECT id FROM steps
                  WHERE uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid);

-- name: mark_workflow(workflow)!
-- Resumed: the next tick looks at every Pending step of it.
INSERT INTO steps_marks ("group", step_id)
SELECT "group", id FROM steps
WHERE (uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid) AND state = 'Pending' AND placed;

-- name: revivable_below(ids)
-- Children that come back with these steps: ended by a cascade, or failed under a parent whose own code was done.
SELECT c.id
FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid JOIN steps c ON c.id = u.step_id
WHERE p.id IN (SELECT value FROM json_each(:ids))
  AND (c.state IN ('Failed', 'Cancelled', 'NotRunnable')
       AND c.reason IN ('parent_failed', 'parent_cancelled', 'parent_not_runnable')
       OR p.own_code_done_at IS NOT NULL AND c.type = 'default' AND c.state IN ('Failed', 'Stopped'));

-- name: revivable_behind(ids)
SELECT s.id, s.parent_step_id
FROM steps p
JOIN steps_unconcluded u ON u.block_uuid = p.block_uuid AND u.type = p.type AND u."index" > p."index"
JOIN steps s ON s.id = u.step_id AND s.state = 'NotRunnable' AND s.reason = 'predecessor_failed'
WHERE p.id IN (SELECT value FROM json_each(:ids))
UNION
SELECT s.id, s.parent_step_id
FROM step_dependencies e JOIN steps s ON s.id = e.step_id AND s.state = 'NotRunnable' AND s.reason = 'predecessor_failed'
WHERE e.depends_on_id IN (SELECT value FROM json_each(:ids));

-- name: lock_for_revival(ids)
SELECT id, label, action, state, reason, type, attempts, lease_worker, parent_step_id, own_code_done_at, has_children,
       child_block_uuid
FROM steps WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: revive(ids, actor, reason, now)!
UPDATE steps SET
    state = CASE WHEN own_code_done_at IS NOT NULL AND state <> 'NotRunnable' THEN 'Running' ELSE 'Pending' END,
    reason = :reason, actor = :actor, attempts = 0, retries = 0, not_completed = 0, rescues = 0, double_checks = 0, dispatch_after = NULL,
    is_throttled = false, started_at = NULL, completed_at = NULL, duration = NULL, error_message = NULL,
    last_error = NULL, error_stack_trace = NULL, updated_at = :now, changed_from = state
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('Failed', 'Stopped', 'Cancelled', 'NotRunnable');

-- name: hold_group_of(id)
-- The write lock already keeps every tick out.
SELECT 1 AS held WHERE :id IS NOT NULL;

-- name: hold_group_of_workflow(workflow)
SELECT 1 AS held WHERE :workflow IS NOT NULL;

-- name: recheck_dependents(ids)!
-- They waited for an end and had it. The next tick looks whether they wait again: their trigger rule may be met still.
UPDATE steps_agenda SET status = 'unchecked', key_blocked = concurrency_key IS NOT NULL
WHERE status IN ('open', 'delayed')
  AND step_id IN (SELECT step_id FROM step_dependencies WHERE depends_on_id IN (SELECT value FROM json_each(:ids)));

-- A worker's words. Each counts only while the step is Running under the token that its claim was given.

-- name: register_worker(id, hostname, pid, slots, now, alive_until)!
INSERT INTO workers (id, hostname, pid, slots, started_at, heartbeat_at, alive_until)
VALUES (:id, :hostname, :pid, :slots, :now, :now, :alive_until);

-- name: heartbeat(id, now, alive_until)!
UPDATE workers SET heartbeat_at = :now, alive_until = :alive_until WHERE id = :id;

-- name: forget_worker(id)!
DELETE FROM workers WHERE id = :id;

-- name: finish(id, token, response, duration, actor, now)
-- Own code done: Completed, or Running until the children are.
UPDATE steps SET
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, response = :response,
    duration = :duration, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now,
    changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: retry_later(id, token, dispatch_after, error, stack, actor, now)
UPDATE steps SET state = 'Pending', reason = 'retry', retries = retries + 1, dispatch_after = :dispatch_after,
    error_message = coalesce(error_message, :error), last_error = :error,
    error_stack_trace = coalesce(error_stack_trace, :stack),
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: throttle(id, token, dispatch_after, actor, now)
UPDATE steps SET state = 'Pending', reason = 'throttled', is_throttled = true, was_throttled = true,
    dispatch_after = :dispatch_after, last_error = NULL,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: fail(id, token, reason, error, stack, duration, actor, now)
UPDATE steps SET state = 'Failed', reason = :reason, error_message = coalesce(error_message, :error), last_error = :error,
    error_stack_trace = coalesce(error_stack_trace, :stack), duration = :duration, completed_at = :now,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: stop(id, token, reason, duration, actor, now)
UPDATE steps SET state = 'Stopped', reason = :reason, last_error = NULL, duration = :duration, completed_at = :now,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: skip(id, token, reason, duration, actor, now)
UPDATE steps SET state = 'Skipped', reason = :reason, duration = :duration, completed_at = :now,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: hand_back(id, token, actor, now)
-- Unfinished and unspent: the attempt does not count.
UPDATE steps SET state = 'Pending', reason = 'handed_back', attempts = attempts - 1, last_error = NULL,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: let_go(id, token, now)!
-- The process of a step that was cancelled, skipped or failed from outside has ended.
UPDATE steps SET lease_worker = NULL, lease_deadline = NULL, updated_at = :now, changed_from = state
WHERE id = :id AND lease_token = :token AND lease_worker IS NOT NULL
  AND state NOT IN ('Pending', 'Dispatched', 'Running');

-- A worker's words. Each counts only while the step is Running under the token that its claim was given.
-- A stage once reached is never forgotten but by `finish`: a word that does not name it must not make compute run again.

-- name: register_worker(id, hostname, pid, slots, now, alive_until)!
INSERT INTO workers (id, hostname, pid, slots, started_at, heartbeat_at, alive_until)
VALUES (:id, :hostname, :pid, :slots, :now, :now, :alive_until);

-- name: leases_of_worker(worker)
-- Every lease that the worker holds, and what has become of its steps.
SELECT id, lease_token, state, lease_deadline FROM steps
WHERE id IN (SELECT step_id FROM steps_agenda WHERE status = 'running') AND lease_worker = :worker;

-- name: is_there_work(worker)
-- Read before a claim is tried for no better reason than that time has passed.
SELECT 1 AS yes
FROM worker_lanes l
WHERE l.worker_id = :worker
  AND ((SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'dispatched' AND a.queue = l.queue AND a.action = l.action
        ORDER BY a.rank, a.step_id LIMIT 1) IS NOT NULL
       OR (SELECT a.step_id FROM steps_agenda a
           WHERE a.status = 'open' AND NOT a.key_blocked AND a.queue = l.queue AND a.action = l.action
           ORDER BY a.rank, a.step_id LIMIT 1) IS NOT NULL)
LIMIT 1;

-- name: is_registered(worker)
SELECT 1 AS yes FROM workers WHERE id = :worker;

-- name: lanes_if_lapsed(worker, now)
-- The lanes of a worker that counts as dead.
SELECT l.queue, l.action FROM workers w JOIN worker_lanes l ON l.worker_id = w.id
WHERE w.id = :worker AND w.alive_until <= :now;

-- name: heartbeat(id, now, alive_until)!
UPDATE workers SET heartbeat_at = :now, alive_until = :alive_until WHERE id = :id;

-- name: forget_worker(id)!
DELETE FROM workers WHERE id = :id;

-- name: finish(id, token, response, error, stack, duration, actor, now)
-- Own code done: Completed, or Running until the children are. No response: what is recorded stays.
UPDATE steps SET
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    response = coalesce(:response, response), error_message = coalesce(error_message, :error),
    error_stack_trace = coalesce(error_stack_trace, :stack), last_error = :error,
    duration = :duration, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now,
    changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: retry_later(id, token, dispatch_after, error, stack, stage, actor, now)
UPDATE steps SET state = 'Pending', reason = 'retry', retries = retries + 1, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), error_message = coalesce(error_message, :error),
    last_error = :error, error_stack_trace = coalesce(error_stack_trace, :stack),
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: throttle(id, token, dispatch_after, stage, actor, now)
UPDATE steps SET state = 'Pending', reason = 'throttled', is_throttled = true, was_throttled = true, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), last_error = NULL,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: check_again(id, token, dispatch_after, stage, actor, now)
UPDATE steps SET state = 'Pending', reason = 'double_check', double_checks = double_checks + 1, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), last_error = NULL,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: not_completed(id, token, dispatch_after, limit, error, stage, actor, now)
-- It did not come to its end: back after its cooldown, so many times in a row.
UPDATE steps SET
    state = CASE WHEN not_completed >= :limit THEN 'Failed' ELSE 'Pending' END,
    reason = 'not_completed', not_completed = not_completed + 1,
    completed_at = CASE WHEN not_completed >= :limit THEN :now END,
    error_message = CASE WHEN not_completed >= :limit
                         THEN coalesce(error_message, :error, 'it was not completed in ' || (not_completed + 1) || ' runs')
                         ELSE coalesce(error_message, :error) END,
    last_error = :error, dispatch_after = :dispatch_after, stage = coalesce(:stage, stage),
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: rescue(id, token, dispatch_after, limit, error, actor, now)
-- Its process died under it: back to its turn, so many times; then it is taken for poison.
UPDATE steps SET
    state = CASE WHEN rescues >= :limit THEN 'Failed' ELSE 'Pending' END,
    reason = CASE WHEN rescues >= :limit THEN 'poison' ELSE 'rescued' END, rescues = rescues + 1,
    completed_at = CASE WHEN rescues >= :limit THEN :now END,
    error_message = coalesce(error_message, :error), last_error = :error, dispatch_after = :dispatch_after,
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: fail(id, token, reason, error, stack, stage, duration, actor, now)
UPDATE steps SET state = 'Failed', reason = :reason, error_message = coalesce(error_message, :error), last_error = :error,
    error_stack_trace = coalesce(error_stack_trace, :stack), stage = coalesce(:stage, stage), duration = :duration,
    completed_at = :now, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
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

-- name: hand_back(id, token, dispatch_after, error, stage, actor, now)
-- Unfinished and unspent: the attempt does not count.
UPDATE steps SET state = 'Pending', reason = 'handed_back', attempts = attempts - 1, last_error = :error,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage),
    lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING state;

-- name: hold_lease(id, token)
-- Whoever speaks for the step may add to it: nobody takes the lease away before this transaction ends.
UPDATE steps SET lease_token = lease_token, changed_from = NULL
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL
RETURNING id;

-- name: holds_lease(id, token)
SELECT id FROM steps WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL;

-- name: is_recorded(id, token)
-- Whether the run under this token has recorded its compute.
SELECT id FROM steps
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL AND stage IS NOT NULL;

-- name: record_compute(id, token, stage, response, now)!
-- Compute is done and never runs again: the next attempt, should there be one, begins at the stage after it.
UPDATE steps SET compute_done_at = coalesce(compute_done_at, :now), stage = :stage, response = :response,
    updated_at = :now, changed_from = NULL
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL;

-- name: keep_checkpoint(id, token, data)!
UPDATE steps SET checkpoint = :data, changed_from = NULL
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL;

-- name: note_progress(id, token, done, total)!
UPDATE steps SET progress_done = :done, progress_total = :total, changed_from = NULL
WHERE id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL;

-- name: release_lease(id, token, now)!
-- The process of a step that was cancelled, skipped or failed from outside has ended.
UPDATE steps SET lease_worker = NULL, lease_deadline = NULL, updated_at = :now, changed_from = state
WHERE id = :id AND lease_token = :token AND lease_worker IS NOT NULL
  AND state NOT IN ('Pending', 'Dispatched', 'Running');

-- name: claim(worker, actor, hostname, limit, now, deadline)
UPDATE steps SET state = 'Running', reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, lease_deadline = :deadline, hostname = :hostname, started_at = :now, actor = :actor,
    updated_at = :now, changed_from = state
WHERE state = 'Dispatched' AND id IN (
    SELECT a.step_id FROM worker_lanes l
    JOIN steps_agenda a ON a.stage = 'dispatched' AND a.queue = l.queue AND a.action = l.action
    WHERE l.worker_id = :worker
    ORDER BY a.rank, a.step_id LIMIT :limit
    FOR UPDATE OF a SKIP LOCKED)
RETURNING id, uuid, action, arguments, label, queue, "group", priority, workflow_id, parent_step_id, child_block_uuid,
    "index", relatable_type, relatable_id, attempts, retries, max_retries, timeout, cooldown, lease_token, has_children,
    stage, double_checks, checkpoint;

-- name: finish_many(said, actor, now)
-- `finish`, for a batch.
UPDATE steps SET
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    response = coalesce(CAST(said.response AS json), steps.response), last_error = NULL,
    duration = said.duration, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now,
    changed_from = state
FROM json_to_recordset(CAST(:said AS json)) AS said (id bigint, token bigint, response text, duration double precision)
WHERE steps.id = said.id AND state = 'Running' AND lease_token = said.token AND lease_worker IS NOT NULL
RETURNING steps.id, state;

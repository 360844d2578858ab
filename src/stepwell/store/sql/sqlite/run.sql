-- name: claim(worker, actor, hostname, limit, high, now, margin)
-- Dispatched to Running, under a new token. The urgent come first, but not more than `high` of them while others wait.
UPDATE steps SET state = 'Running', reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1,
    lease_deadline = CASE WHEN timeout > 0
        THEN strftime('%Y-%m-%d %H:%M:%f000', :now, (timeout + cooldown + :margin) || ' seconds') END,
    hostname = :hostname, started_at = :now, actor = :actor, updated_at = :now, changed_from = state
WHERE state = 'Dispatched' AND id IN (
    SELECT a.step_id FROM (
        SELECT d.step_id, d.rank, l.place AS queue_place,
               row_number() OVER (PARTITION BY d.rank ORDER BY l.place, d.step_id) AS place
        FROM worker_lanes l JOIN steps_agenda d ON d.stage = 'dispatched' AND d.queue = l.queue AND d.action = l.action
        WHERE l.worker_id = :worker) AS waiting
    JOIN steps_agenda a ON a.step_id = waiting.step_id AND a.stage = 'dispatched'
    ORDER BY CASE WHEN waiting.rank = 0 AND waiting.place > :high THEN 2 ELSE waiting.rank END,
             waiting.queue_place, a.step_id
    LIMIT :limit)
RETURNING id, uuid, action, arguments, label, queue, "group", priority, workflow_id, parent_step_id, child_block_uuid,
    "index", relatable_type, relatable_id, attempts, retries, max_retries, timeout, cooldown, lease_token, has_children,
    followed, stage, double_checks, checkpoint,
    CASE WHEN stage IS NOT NULL THEN response END AS response;

-- name: pick_for_claim(worker, limit, high)
-- What a worker with free slots may take without waiting for a tick: open steps of its lanes, over all groups.
WITH lanes (queue, action, place, rank) AS (
    SELECT l.queue, l.action, l.place, r.rank FROM worker_lanes l CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    WHERE l.worker_id = :worker
), candidates AS (
    SELECT found.step_id, found.rank, lane.place AS queue_place,
           row_number() OVER (PARTITION BY found.rank ORDER BY lane.place, found.step_id) AS place
    FROM lanes AS lane
    JOIN steps_agenda found ON found.step_id IN (
        SELECT o.step_id FROM steps_agenda o
        WHERE o.stage = 'open' AND o.queue = lane.queue AND o.action = lane.action AND o.rank = lane.rank
          AND (SELECT r.parent_ready AND r.order_met AND r.dependencies_met AND r.retries_left AND r.workflow_runs
               FROM step_readiness r WHERE r.step_id = o.step_id)
        ORDER BY o.step_id LIMIT :limit)
)
SELECT step_id FROM candidates
ORDER BY CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END, queue_place, step_id
LIMIT :limit;

-- name: count_dispatched(worker)
SELECT count(*) AS waiting
FROM worker_lanes l JOIN steps_agenda d ON d.stage = 'dispatched' AND d.queue = l.queue AND d.action = l.action
WHERE l.worker_id = :worker;

-- name: finish_many(said, actor, now)
-- `finish`, for a batch.
UPDATE steps SET
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    response = coalesce(said.response, steps.response), last_error = NULL,
    duration = said.duration, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now,
    changed_from = state
FROM (SELECT json_extract(value, '$.id') AS id, json_extract(value, '$.token') AS token,
             json_extract(value, '$.response') AS response, json_extract(value, '$.duration') AS duration
      FROM json_each(:said)) AS said
WHERE steps.id = said.id AND state = 'Running' AND lease_token = said.token AND lease_worker IS NOT NULL
RETURNING steps.id, state;

-- name: begin_claim()
-- As `keep_to_indexes`; and says whether there are limits to obey.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       EXISTS (SELECT 1 FROM steps_limits) AS limited;

-- name: pick_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- What a worker with free slots may take, over all groups: what is dispatched to its lanes, and with `open_too` what is
-- open there while the breaker is on. The urgent come first, but not more than `high` of them while others wait.
-- A rank from itself to itself: were it equal, the planner would know that the order is that of the primary key alone,
-- and with some statistics it would walk through the whole agenda in that order.
WITH breaker (value) AS (
    SELECT value FROM settings WHERE name = 'can_dispatch_steps' FOR SHARE -- whoever pauses waits for this claim
), lanes (queue, action, place, rank) AS (
    SELECT l.queue, l.action, l.place, r.rank FROM worker_lanes l CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    WHERE l.worker_id = :worker
      AND l.queue <> ALL(CAST(:full_queues AS text[])) AND l.action <> ALL(CAST(:full_actions AS text[]))
), candidates (step_id, queue, action, rank, queue_place) AS (
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place FROM lanes AS lane CROSS JOIN LATERAL (
        SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'dispatched' AND a.queue = lane.queue AND a.action = lane.action
          AND a.rank BETWEEN lane.rank AND lane.rank
        ORDER BY a.rank, a.step_id LIMIT :limit FOR UPDATE SKIP LOCKED) AS found
    UNION ALL
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place FROM lanes AS lane CROSS JOIN LATERAL (
        SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'open' AND NOT a.key_blocked AND a.queue = lane.queue AND a.action = lane.action
          AND a.rank BETWEEN lane.rank AND lane.rank
          AND (SELECT r.parent_ready AND r.order_met AND r.dependencies_met AND r.retries_left AND r.workflow_runs
               FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.rank, a.step_id LIMIT :limit FOR UPDATE SKIP LOCKED) AS found
    WHERE CAST(:open_too AS boolean) AND (SELECT value FROM breaker) = 'on'
), numbered AS (
    SELECT step_id, queue, action, rank, queue_place,
           row_number() OVER (PARTITION BY rank ORDER BY queue_place, step_id) AS place
    FROM candidates
)
SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS turn FROM numbered
ORDER BY turn, queue_place, step_id
LIMIT :most;

-- name: claim(ids, worker, actor, hostname, now, margin)
-- To Running, under a new token: what was dispatched, and what is open by way of Dispatched in the same breath.
UPDATE steps SET state = 'Running', reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, claim_token = CASE state WHEN 'Pending' THEN lease_token + 1 ELSE claim_token END,
    lease_deadline = CASE WHEN timeout > 0
        THEN CAST(:now AS timestamptz) + (timeout + cooldown + :margin) * interval '1 second' END,
    tick_id = CASE state WHEN 'Pending' THEN NULL ELSE tick_id END, is_throttled = false,
    hostname = :hostname, started_at = :now, actor = :actor, updated_at = :now, changed_from = state
WHERE id = ANY(CAST(:ids AS bigint[])) AND state IN ('Pending', 'Dispatched')
RETURNING id, uuid, action, arguments, label, queue, "group", priority, workflow_id, parent_step_id, child_block_uuid,
    "index", relatable_type, relatable_id, attempts, retries, max_retries, timeout, cooldown, lease_token, has_children,
    has_dependents, stage, double_checks, checkpoint,
    CASE WHEN stage IS NOT NULL THEN response END AS response;

-- name: finish_many(ids, tokens, responses, durations, actor, now)
-- `finish`, for a batch.
UPDATE steps SET
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    response = coalesce(CAST(said.response AS json), steps.response), last_error = NULL,
    duration = said.duration, lease_worker = NULL, lease_deadline = NULL, actor = :actor, updated_at = :now,
    changed_from = state
FROM unnest(CAST(:ids AS bigint[]), CAST(:tokens AS bigint[]), CAST(:responses AS text[]),
            CAST(:durations AS double precision[])) AS said (id, token, response, duration)
WHERE steps.id = said.id AND state = 'Running' AND lease_token = said.token AND lease_worker IS NOT NULL
RETURNING steps.id, state;

-- name: waiting_behind(ids)
-- Steps whose last condition may have been the end of these (or of their own code): the next level of their blocks,
-- their dependents, their first children.
SELECT u.step_id AS id
FROM (SELECT d.block_uuid, d.type, min(d."index") AS done,
             (SELECT min(x."index") FROM steps_unconcluded x
              WHERE x.block_uuid = d.block_uuid AND x.type = d.type) AS level
      FROM steps d WHERE d.id = ANY(CAST(:ids AS bigint[])) AND d.state IN ('Completed', 'Skipped')
      GROUP BY d.block_uuid, d.type) AS front
JOIN steps_unconcluded u ON u.block_uuid = front.block_uuid AND u.type = front.type AND u."index" = front.level
WHERE front.level > front.done
UNION
SELECT e.step_id FROM step_dependencies e WHERE e.depends_on_id = ANY(CAST(:ids AS bigint[]))
UNION
SELECT c.step_id
FROM steps p JOIN steps_unconcluded c ON c.block_uuid = p.child_block_uuid AND c.type = 'default'
     AND c."index" = (SELECT min(x."index") FROM steps_unconcluded x
                      WHERE x.block_uuid = p.child_block_uuid AND x.type = 'default')
WHERE p.id = ANY(CAST(:ids AS bigint[])) AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL;

-- name: keep_to_indexes()
-- Until the end of the transaction. The statistics of tables that fill and empty all day are always wrong, and there
-- is one good plan for each statement, whatever its parameters.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true);

-- name: fence(group, owner, token, idle_ms)
-- Holds the lock's row to the end of the transaction: a takeover waits for it, and after a takeover this finds nothing.
-- The planner is kept to indexes, as by `keep_to_indexes`.
-- A process that is stopped in here loses its session, and the group is free for others.
SELECT lock_token, set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
       set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('idle_in_transaction_session_timeout', CAST(:idle_ms AS text), true)
FROM steps_dispatcher WHERE "group" = :group AND lock_owner = :owner AND lock_token = :token
FOR UPDATE;

-- name: forget_marks(ids)!
DELETE FROM steps_marks WHERE id = ANY(CAST(:ids AS bigint[]));

-- name: parents_to_decide(group)
-- Whoever adds a child locks its parent first. With the lock, the next statement sees every child there will be.
SELECT p.id FROM steps p
WHERE p.state = 'Running' AND p.own_code_done_at IS NOT NULL
  AND p.id IN (
    SELECT CASE WHEN c.state = 'Running' AND c.own_code_done_at IS NOT NULL THEN c.id ELSE c.parent_step_id END
    FROM steps_marks m JOIN steps c ON c.id = m.step_id WHERE m."group" = :group)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = p.child_block_uuid AND NOT u.ended)
ORDER BY p.id FOR NO KEY UPDATE;

-- name: fail_parents(ids, actor, now)!
UPDATE steps SET state = 'Failed', reason = 'children_failed', actor = :actor, completed_at = :now, updated_at = :now,
    changed_from = state,
    error_message = (
        SELECT 'children did not conclude: ' || string_agg(named, ', ')
               || CASE WHEN max(total) > 10 THEN ' and ' || (max(total) - 10) || ' more' ELSE '' END
        FROM (SELECT 'step ' || c.id || ' ' || coalesce(c.label, c.action) || ' (' || c.state || ')' AS named,
                     count(*) OVER () AS total
              FROM steps_unconcluded u JOIN steps c ON c.id = u.step_id
              WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default'
              ORDER BY u."index", c.id LIMIT 10) AS listed)
WHERE id = ANY(CAST(:ids AS bigint[])) AND state = 'Running' AND own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
  AND EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default')
  AND NOT EXISTS (
    SELECT 1 FROM steps_unconcluded x JOIN steps h ON h.id = x.step_id
    WHERE x.block_uuid = steps.child_block_uuid AND x.type = 'resolve-exception' AND h.reason = 'dormant'
      AND EXISTS (SELECT 1 FROM steps_unconcluded y JOIN steps f ON f.id = y.step_id
                  WHERE y.block_uuid = x.block_uuid AND y.type = 'default' AND f.state IN ('Failed', 'Stopped')));

-- name: complete_parents(ids, actor, now)!
UPDATE steps SET state = 'Completed', reason = 'children_concluded', actor = :actor, completed_at = :now,
    updated_at = :now, changed_from = state
WHERE id = ANY(CAST(:ids AS bigint[])) AND state = 'Running' AND own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default');

-- name: open_ready(ids, now)!
INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
SELECT s.id, s.status, s."group", s.queue, s.action, s.rank, s.dispatch_after, s.concurrency_key, s.concurrency_key IS NOT NULL
FROM unnest(CAST(:ids AS bigint[])) AS candidate (id)
CROSS JOIN LATERAL (
    SELECT s.id, s."group", s.queue, s.action, s.dispatch_after, s.concurrency_key, CASE s.priority WHEN 'high' THEN 0 ELSE 1 END AS rank,
           CASE WHEN NOT r.retries_left THEN 'exhausted' WHEN s.dispatch_after > :now THEN 'delayed' ELSE 'open' END AS status
    FROM steps s JOIN step_readiness r ON r.step_id = s.id
    WHERE s.id = candidate.id AND s.state = 'Pending'
      AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = candidate.id)
      AND r.parent_ready AND r.order_met AND r.dependencies_met AND r.workflow_runs
    LIMIT 1 -- or it would be joined in an order of the planner's own
    FOR SHARE OF s -- or somebody else may have let it in, and a worker may have run it, since this statement began
) AS s
ON CONFLICT (step_id) DO NOTHING;

-- name: breaker_for_dispatch()
-- Whoever pauses waits until this dispatch is done, and then there is no other.
SELECT value FROM settings WHERE name = 'can_dispatch_steps' FOR SHARE;

-- name: lock_queues(group)
-- One dispatch at a time into a queue, so that the bound on Dispatched is exact over all groups.
SELECT name FROM steps_queues q
WHERE (SELECT a.step_id FROM steps_agenda a WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = :group AND a.queue = q.name
       ORDER BY a.action, a.rank, a.step_id LIMIT 1) IS NOT NULL
ORDER BY name FOR UPDATE;

-- name: pick(group, now, limit, spare, queues)
-- The urgent first, but an eighth of the room (and `spare` more) is for the others while any wait.
WITH room (queue, free) AS (
    SELECT l.queue, 2 * sum(w.slots) - (SELECT count(*) FROM steps_agenda a WHERE a.status = 'dispatched' AND a.queue = l.queue)
    FROM (SELECT DISTINCT queue, worker_id FROM worker_lanes) AS l
    JOIN workers w ON w.id = l.worker_id AND w.alive_until > :now
    GROUP BY l.queue
), lanes (queue, action, free) AS (
    SELECT DISTINCT l.queue, l.action, r.free
    FROM room r JOIN lanes_served l ON l.queue = r.queue AND l.alive_until > :now
    WHERE r.free > 0 AND r.queue = ANY(CAST(:queues AS text[]))
), candidates AS (
    SELECT a.step_id, a.rank, a.queue, lane.free,
           row_number() OVER (PARTITION BY a.queue, a.rank ORDER BY a.step_id) AS place
    FROM lanes AS lane CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    CROSS JOIN LATERAL (
        SELECT o.step_id, o.rank, o.queue FROM steps_agenda o
        WHERE o.status = 'open' AND NOT o.key_blocked AND o."group" = :group AND o.queue = lane.queue AND o.action = lane.action
          AND o.rank BETWEEN r.rank AND r.rank -- as in `pick_for_claim`: keeps the planner from the primary key
          AND (SELECT r.parent_ready AND r.order_met AND r.dependencies_met AND r.retries_left AND r.workflow_runs
               FROM step_readiness r WHERE r.step_id = o.step_id)
        ORDER BY o.rank, o.step_id LIMIT least(:limit, lane.free)
    ) AS a
), ordered AS (
    SELECT step_id, rank, free, CASE WHEN rank = 0 AND place > free - free / 8 - :spare THEN 2 ELSE rank END AS turn,
           row_number() OVER (
               PARTITION BY queue
               ORDER BY CASE WHEN rank = 0 AND place > free - free / 8 - :spare THEN 2 ELSE rank END, step_id) AS place
    FROM candidates
)
SELECT step_id FROM ordered WHERE place <= free ORDER BY turn, step_id LIMIT :limit;

-- name: dispatch(ids, actor, tick, now)!
UPDATE steps SET state = 'Dispatched', reason = NULL, actor = :actor, tick_id = :tick, is_throttled = false,
    updated_at = :now, changed_from = state
WHERE id IN (SELECT a.step_id FROM steps_agenda a
             WHERE a.step_id = ANY(CAST(:ids AS bigint[])) AND a.status = 'open' AND NOT a.key_blocked
             FOR UPDATE)
  AND state = 'Pending';

-- name: database_time()
SELECT clock_timestamp() AS now;

-- name: notify(news)
-- To everyone who listens on this schema.
SELECT pg_notify('stepwell:' || current_schema(), :news) IS NULL AS told;

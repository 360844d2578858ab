-- name: keep_to_indexes()
-- What PostgreSQL's planner needs to be told.
SELECT 1 AS kept;

-- name: fence(group, owner, token)
-- Nobody else can write before this transaction ends, so reading is enough.
SELECT lock_token FROM steps_dispatcher WHERE "group" = :group AND lock_owner = :owner AND lock_token = :token;

-- name: forget_marks(ids)!
DELETE FROM steps_marks WHERE id IN (SELECT value FROM json_each(:ids));

-- name: parents_to_decide(group)
SELECT p.id FROM steps p
WHERE p.state = 'Running' AND p.own_code_done_at IS NOT NULL
  AND p.id IN (
    SELECT CASE WHEN c.state = 'Running' AND c.own_code_done_at IS NOT NULL THEN c.id ELSE c.parent_step_id END
    FROM steps_marks m JOIN steps c ON c.id = m.step_id WHERE m."group" = :group)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = p.child_block_uuid AND NOT u.ended);

-- name: fail_parents(ids, actor, now)!
UPDATE steps SET state = 'Failed', reason = 'children_failed', actor = :actor, completed_at = :now, updated_at = :now,
    changed_from = state,
    error_message = (
        SELECT 'children did not conclude: ' || group_concat(named, ', ')
               || CASE WHEN max(total) > 10 THEN ' and ' || (max(total) - 10) || ' more' ELSE '' END
        FROM (SELECT 'step ' || c.id || ' ' || coalesce(c.label, c.action) || ' (' || c.state || ')' AS named,
                     count(*) OVER () AS total
              FROM steps_unconcluded u JOIN steps c ON c.id = u.step_id
              WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default'
              ORDER BY u."index", c.id LIMIT 10))
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'Running' AND own_code_done_at IS NOT NULL
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
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'Running' AND own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default');

-- name: open_ready(ids, now)!
INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
SELECT s.id,
       CASE WHEN NOT r.retries_left THEN 'exhausted' WHEN s.dispatch_after > :now THEN 'delayed' ELSE 'open' END,
       s."group", s.queue, s.action, CASE s.priority WHEN 'high' THEN 0 ELSE 1 END, s.dispatch_after,
       s.concurrency_key, s.concurrency_key IS NOT NULL
FROM json_each(:ids) AS candidate CROSS JOIN steps s CROSS JOIN step_readiness r
WHERE s.id = candidate.value AND s.state = 'Pending'
  AND r.step_id = s.id AND r.parent_ready AND r.order_met AND r.dependencies_met AND r.workflow_runs
ON CONFLICT (step_id) DO NOTHING;

-- name: breaker_for_dispatch()
SELECT value FROM settings WHERE name = 'can_dispatch_steps';

-- name: lock_queues(group)
-- The write lock already keeps every other dispatcher out.
SELECT name FROM steps_queues WHERE :group IS NOT NULL;

-- name: pick(group, now, limit, spare)
-- The urgent first, but an eighth of the room (and `spare` more) is for the others while any wait.
WITH room (queue, free) AS (
    SELECT l.queue, 2 * sum(w.slots) - (SELECT count(*) FROM steps_agenda a WHERE a.status = 'dispatched' AND a.queue = l.queue)
    FROM (SELECT DISTINCT queue, worker_id FROM worker_lanes) AS l
    JOIN workers w ON w.id = l.worker_id AND w.alive_until > :now
    GROUP BY l.queue
), lanes (queue, action, free) AS (
    SELECT DISTINCT l.queue, l.action, r.free
    FROM room r JOIN lanes_served l ON l.queue = r.queue AND l.alive_until > :now
    WHERE r.free > 0
), candidates AS (
    SELECT a.step_id, a.rank, a.queue, lane.free,
           row_number() OVER (PARTITION BY a.queue, a.rank ORDER BY a.step_id) AS place
    FROM lanes AS lane CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    JOIN steps_agenda a ON a.step_id IN (
        SELECT o.step_id FROM steps_agenda o INDEXED BY steps_agenda_open
        WHERE o.status = 'open' AND NOT o.key_blocked AND o."group" = :group AND o.queue = lane.queue AND o.action = lane.action AND o.rank = r.rank
          AND (SELECT r.parent_ready AND r.order_met AND r.dependencies_met AND r.retries_left AND r.workflow_runs
               FROM step_readiness r WHERE r.step_id = o.step_id)
        ORDER BY o.step_id LIMIT :limit)
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
             WHERE a.step_id IN (SELECT value FROM json_each(:ids)) AND a.status = 'open' AND NOT a.key_blocked)
  AND state = 'Pending';

-- name: begin_claim()
-- Says whether there are limits to obey.
SELECT EXISTS (SELECT 1 FROM steps_limits) AS limited;

-- name: pick_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- What a worker with free slots may take, over all groups: what is dispatched to its lanes, and with `open_too` what is
-- open there while the breaker is on. The urgent come first, but not more than `high` of them while others wait.
-- The indexes are named: with statistics SQLite may rather walk through the whole agenda in the order of its steps.
WITH lanes (queue, action, place, rank) AS (
    SELECT l.queue, l.action, l.place, r.rank FROM worker_lanes l CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    WHERE l.worker_id = :worker AND l.queue NOT IN (SELECT value FROM json_each(:full_queues))
      AND l.action NOT IN (SELECT value FROM json_each(:full_actions))
), candidates (step_id, queue, action, rank, queue_place) AS (
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_dispatched
        WHERE a.status = 'dispatched' AND a.queue = lane.queue AND a.action = lane.action AND a.rank = lane.rank
        ORDER BY a.step_id LIMIT :limit)
    UNION ALL
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_ready
        WHERE a.status = 'open' AND NOT a.key_blocked AND a.queue = lane.queue AND a.action = lane.action AND a.rank = lane.rank
          AND (SELECT r.parent_ready AND r.order_met AND r.dependencies_met AND r.retries_left AND r.workflow_runs
               FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.step_id LIMIT :limit)
    WHERE :open_too AND EXISTS (SELECT 1 FROM settings WHERE name = 'can_dispatch_steps' AND value = 'on')
), numbered AS (
    SELECT step_id, queue, action, rank, queue_place,
           row_number() OVER (PARTITION BY rank ORDER BY queue_place, step_id) AS place
    FROM candidates
)
SELECT json_group_array(json_array(step_id, queue, action, turn))
FROM (SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS turn FROM numbered
      ORDER BY turn, queue_place, step_id
      LIMIT :most);

-- name: claim(ids, worker, actor, hostname, now, margin, batch)
-- To Running, under a new token: what was dispatched, and what is open by way of Dispatched in the same breath.
-- (Plain SQL may have written texts as bytes, which JSON does not hold.)
UPDATE steps SET batch = :batch, state = 'Running', reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, claim_token = CASE state WHEN 'Pending' THEN lease_token + 1 ELSE claim_token END,
    lease_deadline = CASE WHEN timeout > 0
        THEN strftime('%Y-%m-%d %H:%M:%f000', :now, (timeout + cooldown + :margin) || ' seconds') END,
    tick_id = CASE state WHEN 'Pending' THEN NULL ELSE tick_id END, is_throttled = false,
    hostname = :hostname, started_at = :now, actor = :actor, updated_at = max(updated_at, :now), changed_from = state
WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('Pending', 'Dispatched');
INSERT INTO step_transitions (step_id, from_state, to_state, actor, at, attempt)
SELECT s.id, c.from_state, c.to_state, s.actor, s.updated_at, s.attempts - (c.to_state = 'Dispatched')
FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch
CROSS JOIN (SELECT 'Pending' AS from_state, 'Dispatched' AS to_state UNION ALL SELECT 'Dispatched', 'Running') AS c
WHERE c.to_state = 'Running' OR s.claim_token = s.lease_token;
UPDATE steps_agenda SET status = 'running'
WHERE step_id IN (SELECT s.id FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch);
SELECT json_group_array(json_array(id, uuid, action, CAST(arguments AS text), CAST(label AS text), queue, "group", priority,
    workflow_id, parent_step_id, child_block_uuid, "index", CAST(relatable_type AS text), CAST(relatable_id AS text),
    attempts, retries, max_retries, timeout, cooldown, lease_token, has_children, has_dependents, stage, double_checks,
    CAST(checkpoint AS text), CASE WHEN stage IS NOT NULL THEN CAST(response AS text) END))
FROM steps WHERE id IN (SELECT value FROM json_each(:ids)) AND batch = :batch;

-- name: finish_many(said, ids, actor, now, batch)
-- `finish`, for a batch; what is said of a step is [id, token, response, duration].
UPDATE steps SET batch = :batch,
    state = CASE WHEN has_children THEN 'Running' ELSE 'Completed' END,
    reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    response = coalesce(json_extract(said.value, '$[2]'), response), last_error = NULL,
    duration = json_extract(said.value, '$[3]'), lease_worker = NULL, lease_deadline = NULL, actor = :actor,
    updated_at = max(updated_at, :now), changed_from = state
FROM json_each(:said) AS said
WHERE steps.id = json_extract(said.value, '$[0]') AND state = 'Running'
  AND lease_token = json_extract(said.value, '$[1]') AND lease_worker IS NOT NULL;
INSERT INTO step_transitions (step_id, from_state, to_state, actor, at, attempt)
SELECT s.id, 'Running', s.state, s.actor, s.updated_at, s.attempts
FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch AND s.state = 'Completed';
DELETE FROM steps_agenda
WHERE step_id IN (SELECT s.id FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch);
DELETE FROM steps_unconcluded
WHERE step_id IN (SELECT s.id FROM json_each(:ids) i CROSS JOIN steps s
                  ON s.id = i.value AND s.batch = :batch AND s.state = 'Completed'
                  WHERE s.parent_step_id IS NOT NULL OR s.has_dependents);
INSERT INTO steps_marks ("group", step_id)
SELECT s."group", s.id FROM json_each(:ids) i CROSS JOIN steps s ON s.id = i.value AND s.batch = :batch
WHERE (s.parent_step_id IS NOT NULL OR s.has_dependents OR s.has_children) AND s."group" IS NOT NULL;
SELECT json_group_array(json_array(id, state))
FROM steps WHERE id IN (SELECT value FROM json_each(:ids)) AND batch = :batch;

-- name: waiting_behind(ids)
-- Steps whose last condition may have been the end of these (or of their own code): the next level of their blocks,
-- their dependents, their first children.
SELECT u.step_id AS id
FROM (SELECT d.block_uuid, d.type, min(d."index") AS done,
             (SELECT min(x."index") FROM steps_unconcluded x
              WHERE x.block_uuid = d.block_uuid AND x.type = d.type) AS level
      FROM steps d WHERE d.id IN (SELECT value FROM json_each(:ids)) AND d.state IN ('Completed', 'Skipped')
      GROUP BY d.block_uuid, d.type) AS front
JOIN steps_unconcluded u ON u.block_uuid = front.block_uuid AND u.type = front.type AND u."index" = front.level
WHERE front.level > front.done
UNION
SELECT e.step_id FROM step_dependencies e WHERE e.depends_on_id IN (SELECT value FROM json_each(:ids))
UNION
SELECT c.step_id
FROM steps p JOIN steps_unconcluded c ON c.block_uuid = p.child_block_uuid AND c.type = 'default'
     AND c."index" = (SELECT min(x."index") FROM steps_unconcluded x
                      WHERE x.block_uuid = p.child_block_uuid AND x.type = 'default')
WHERE p.id IN (SELECT value FROM json_each(:ids)) AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL;

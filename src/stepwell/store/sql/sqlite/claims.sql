-- macro: first_candidates
-- The first of the candidates for a claim: high priority before the rest, but no more than `high` of it.
-- Only the high ones are numbered: a window over all candidates costs a third of the statement.
numbered AS (
    SELECT step_id, queue, action, rank, queue_place,
           row_number() OVER (ORDER BY queue_place, step_id) AS place
    FROM candidates WHERE rank = 0
    UNION ALL
    SELECT step_id, queue, action, rank, queue_place, 0 FROM candidates WHERE rank = 1
)
SELECT json_group_array(json_array(step_id, queue, action, tier, EXISTS (SELECT 1 FROM steps_limits)))
FROM (SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS tier
      FROM numbered ORDER BY tier, queue_place, step_id LIMIT :most)

-- name: wait_for_dispatch(worker)
-- There is one writer at a time, so no tick is dispatching.
SELECT 0 AS locked WHERE :worker IS NOT NULL;

-- name: pick_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- The steps that a worker with free slots may claim, across groups: those dispatched to its lanes and, with `open_too`,
-- those open there while the breaker is on. High priority comes first, but no more than `high` of it while others wait.
-- INDEXED BY: with statistics, SQLite may prefer to scan the whole agenda in the order of its primary key.
WITH @lanes, candidates (step_id, queue, action, rank, queue_place) AS MATERIALIZED (
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_dispatched
        WHERE a.status = 'dispatched' AND a.queue = lane.queue AND a.action = lane.action AND a.rank = lane.rank
        ORDER BY a.step_id LIMIT :limit)
    UNION ALL
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_ready
        WHERE a.status = 'open' AND NOT a.key_blocked AND a.queue = lane.queue AND a.action = lane.action
          AND a.rank = lane.rank AND (SELECT @eligible(r) FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.step_id LIMIT :limit)
    WHERE :open_too AND @is_dispatching
), @first_candidates;

-- name: pick_in_groups_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- The same for a worker that serves only some groups, by the index of the group.
WITH @lanes, candidates (step_id, queue, action, rank, queue_place) AS MATERIALIZED (
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_dispatched
        WHERE a.status = 'dispatched' AND a.queue = lane.queue AND a.action = lane.action AND a.rank = lane.rank
          AND a."group" = lane."group"
        ORDER BY a.step_id LIMIT :limit)
    UNION ALL
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place
    FROM lanes AS lane JOIN steps_agenda found ON found.step_id IN (
        SELECT a.step_id FROM steps_agenda a INDEXED BY steps_agenda_open
        WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = lane."group" AND a.queue = lane.queue
          AND a.action = lane.action AND a.rank = lane.rank
          AND (SELECT @eligible(r) FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.step_id LIMIT :limit)
    WHERE :open_too AND @is_dispatching
), @first_candidates;

-- name: claim(ids, starting, worker, actor, hostname, now, margin, batch)
-- To Running under a new token. An open step makes two transitions, by way of Dispatched, in the same statement.
-- Those of `starting` begin at once, in a free slot. A step whose last run died is only claimed if it is one of them:
-- it must be known whether the next death is its own.
UPDATE steps SET @batch_to('Running'), reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, claim_token = CASE state WHEN 'Pending' THEN lease_token + 1 ELSE claim_token END,
    lease_deadline = CASE WHEN timeout > 0
        THEN strftime('%Y-%m-%d %H:%M:%f000', :now, (timeout + cooldown + :margin) || ' seconds') END,
    tick_id = CASE state WHEN 'Pending' THEN NULL ELSE tick_id END,
    hostname = :hostname, started_at = :now, begun = id @in(:starting bigint)
WHERE id @in(:ids bigint) AND state IN ('Pending', 'Dispatched') AND (begun AND rescues = 0 OR id @in(:starting bigint));
@effects(begins);
SELECT json_group_array(json_array(id, uuid, action, arguments, label, queue, "group", priority,
    workflow_id, parent_step_id, child_block_uuid, "index", relatable_type, relatable_id,
    attempts, retries, max_retries, timeout, cooldown, lease_token, has_children, has_dependents, stage, double_checks,
    checkpoint, CASE WHEN stage IS NOT NULL THEN response END,
    claim_token = lease_token, begun, belongs_to, kind, template, element, hostname, is_throttled))
FROM steps WHERE id @in(:ids bigint) AND batch = :batch;

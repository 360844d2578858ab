-- macro: first_candidates
-- The first of the candidates for a claim: high priority before the rest, but no more than `high` of it.
numbered AS (
    SELECT step_id, queue, action, rank, queue_place,
           row_number() OVER (PARTITION BY rank ORDER BY queue_place, step_id) AS place
    FROM candidates
)
SELECT step_id, queue, action, CASE WHEN rank = 0 AND place > :high THEN 2 ELSE rank END AS tier,
       EXISTS (SELECT 1 FROM steps_limits) AS has_limits
FROM numbered ORDER BY tier, queue_place, step_id LIMIT :most

-- name: wait_for_dispatch(worker)
-- Until no tick is dispatching to the queues of the worker: a claim would pass over the steps that the tick has locked,
-- and take younger ones.
SELECT count(pg_advisory_xact_lock_shared(@queue_lock(served.queue))) AS locked
FROM (SELECT DISTINCT queue FROM steps_worker_lanes WHERE worker_id = :worker ORDER BY queue) AS served;

-- name: pick_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- The steps that a worker with free slots may claim, across groups: those dispatched to its lanes and, with `open_too`,
-- those open there while the breaker is on. High priority comes first, but no more than `high` of it while others wait.
-- `rank BETWEEN x AND x` instead of `=`: with `=` the planner sees that the sort order is that of the primary key, and with
-- some statistics it would scan the whole agenda in that order.
WITH breaker (value) AS (
    SELECT value FROM steps_settings WHERE name = 'can_dispatch_steps' FOR SHARE -- a pause waits for this claim to commit
), @lanes, candidates (step_id, queue, action, rank, queue_place) AS (
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
          AND (SELECT @eligible(r) FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.rank, a.step_id LIMIT :limit FOR UPDATE SKIP LOCKED) AS found
    WHERE CAST(:open_too AS boolean) AND (SELECT value FROM breaker) = 'true'
), @first_candidates;

-- name: pick_in_groups_for_claim(worker, limit, most, high, open_too, full_queues, full_actions)
-- The same for a worker that serves only some groups, by the index of the group. (Not in the same statement: to plan both
-- takes three times as long, for every connection of every worker.)
WITH breaker (value) AS (
    SELECT value FROM steps_settings WHERE name = 'can_dispatch_steps' FOR SHARE
), @lanes, candidates (step_id, queue, action, rank, queue_place) AS (
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place FROM lanes AS lane CROSS JOIN LATERAL (
        SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'dispatched' AND a.queue = lane.queue AND a.action = lane.action
          AND a.rank BETWEEN lane.rank AND lane.rank AND a."group" = lane."group"
        ORDER BY a.rank, a.step_id LIMIT :limit FOR UPDATE SKIP LOCKED) AS found
    UNION ALL
    SELECT found.step_id, lane.queue, lane.action, lane.rank, lane.place FROM lanes AS lane CROSS JOIN LATERAL (
        SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = lane."group" AND a.queue = lane.queue
          AND a.action = lane.action AND a.rank BETWEEN lane.rank AND lane.rank
          AND (SELECT @eligible(r) FROM step_readiness r WHERE r.step_id = a.step_id)
        ORDER BY a.rank, a.step_id LIMIT :limit FOR UPDATE SKIP LOCKED) AS found
    WHERE CAST(:open_too AS boolean) AND (SELECT value FROM breaker) = 'true'
), @first_candidates;

-- name: claim(ids, starting, worker, actor, hostname, now, margin)
-- To Running under a new token. An open step makes two transitions, by way of Dispatched, in the same statement.
-- Those of `starting` begin at once, in a free slot. A step whose last run died is only claimed if it is one of them:
-- it must be known whether the next death is its own.
UPDATE steps SET @to('Running'), reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, claim_token = CASE state WHEN 'Pending' THEN lease_token + 1 ELSE claim_token END,
    lease_deadline = CASE WHEN timeout > 0
        THEN CAST(:now AS timestamptz) + (timeout + cooldown + :margin) * interval '1 second' END,
    tick_id = CASE state WHEN 'Pending' THEN NULL ELSE tick_id END,
    hostname = :hostname, started_at = :now, begun = id @in(:starting bigint)
WHERE id @in(:ids bigint) AND state IN ('Pending', 'Dispatched') AND (begun AND rescues = 0 OR id @in(:starting bigint))
RETURNING id, uuid, action, arguments, label, queue, "group", priority, workflow_id, parent_step_id, child_block_uuid,
    "index", relatable_type, relatable_id, attempts, retries, max_retries, timeout, cooldown, lease_token, has_children,
    has_dependents, stage, double_checks, checkpoint,
    CASE WHEN stage IS NOT NULL THEN response END AS response, claim_token = lease_token AS was_open, begun, belongs_to,
    kind, template, element, hostname, is_throttled;

-- The data that `explain` reads: first the steps behind a step, then what is known about all of them, in one statement for
-- each kind of fact.

-- name: facts_of_steps(ids)
-- `skippable`: an operator may skip it. The plan of an element is that of its map.
SELECT s.id, s.label, s.action, s.queue, s."group", s.workflow_id, s.type, s.block_uuid, s.child_block_uuid, s.parent_step_id,
       s."index", s.state, s.reason, s.placed, s.trigger_rule, s.dispatch_after, s.retries, s.max_retries, s.attempts,
       s.not_completed, s.own_code_done_at, s.started_at, s.completed_at, s.hostname, s.lease_worker, s.lease_deadline, s.lease_token,
       s.error_message, s.last_error, s.concurrency_key, s.concurrency_limit, s.belongs_to, a.status, coalesce(a.key_blocked, false) AS key_blocked,
       s.kind, s.decision,
       CASE WHEN s.template IS NULL THEN true
            ELSE (SELECT o.plan IS NULL OR coalesce(@sqlite(json_extract(o.plan, '$.skippable'))@postgres(CAST(o.plan ->> 'skippable' AS boolean)), false) FROM steps o
                  WHERE o.id = CASE WHEN s.element IS NULL THEN s.id ELSE s.parent_step_id END) END AS skippable,
       r.parent_ready, r.order_met, r.dependencies_met, r.retries_left, r.workflow_runs, r.unsatisfiable
FROM steps s JOIN step_readiness r ON r.step_id = s.id LEFT JOIN steps_agenda a ON a.step_id = s.id
WHERE s.id @in(:ids bigint);

-- name: unconcluded_of_workflow(workflow, most)
-- In the order of the index: with any other, PostgreSQL would walk the primary key until the limit is reached.
SELECT u.step_id FROM steps_unconcluded u WHERE u.workflow_id = :workflow ORDER BY u.workflow_id, u.ended LIMIT :most;

-- name: unconcluded_in_blocks(blocks, most)
SELECT u.block_uuid, u.type, u."index", u.step_id, u.ended FROM steps_unconcluded u
WHERE u.block_uuid @in(:blocks uuid) ORDER BY u.block_uuid, u.type, u."index", u.step_id LIMIT :most;

-- name: dependencies_of_steps(ids, most)
SELECT e.step_id, e.depends_on_id FROM step_dependencies e
WHERE e.step_id @in(:ids bigint) ORDER BY e.step_id, e.depends_on_id LIMIT :most;

-- name: holders_of_keys(keys, most)
-- Who counts against the limits of these keys.
SELECT a.concurrency_key, a.step_id FROM steps_agenda a
WHERE a.concurrency_key @in(:keys text) AND (a.status IN ('dispatched', 'running') OR a.status = 'open' AND NOT a.key_blocked)
ORDER BY a.step_id LIMIT :most;

-- name: leases_below(ids)
-- Steps that ended while their process still holds the lease and that a retry of an ancestor revives (one that was cancelled
-- by hand is not), with those of the given steps that are above them.
WITH RECURSIVE up (leased_id, id, parent_step_id) AS (
    SELECT s.id, s.id, s.parent_step_id FROM steps s
    WHERE s.id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') AND s.lease_worker IS NOT NULL
      AND (s.state IN @failed OR s.state = 'Cancelled' AND s.reason = 'parent_cancelled')
    UNION
    SELECT u.leased_id, p.id, p.parent_step_id FROM up u JOIN steps p ON p.id = u.parent_step_id
)
SELECT u.leased_id, u.id AS above_id FROM up u WHERE u.id @in(:ids bigint) AND u.id <> u.leased_id ORDER BY u.leased_id;

-- name: served_lanes(queues, actions, now)
-- The lanes that live workers serve; `open`: no limit of 0 applies. `running` counts all leases of those workers.
WITH busy (worker_id, leases) AS (
    SELECT lease_worker, count(*) FROM steps
    WHERE id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') GROUP BY lease_worker
)
SELECT l.queue, l.action, l."group", sum(w.slots) AS slots, sum(coalesce(b.leases, 0)) AS running,
       sum(CASE WHEN coalesce(b.leases, 0) < w.slots THEN 1 ELSE 0 END) > 0 AS has_free_slot,
       sum(CASE WHEN l.closed THEN 0 ELSE 1 END) > 0 AS open
FROM steps_lanes_served l JOIN steps_workers w ON w.id = l.worker_id LEFT JOIN busy b ON b.worker_id = w.id
WHERE l.queue @in(:queues text) AND l.action @in(:actions text) AND l.alive_until > :now
GROUP BY l.queue, l.action, l."group";

-- name: dispatched_by_queue(queues, groups)
SELECT a.queue, d."group", count(*) AS dispatched
FROM steps_dispatcher d CROSS JOIN steps_agenda a
WHERE d."group" @in(:groups text) AND a.status = 'dispatched' AND a.queue @in(:queues text) AND @takes_room(a, d."group")
GROUP BY a.queue, d."group";

-- name: slots_by_queue(queues, now)
SELECT l.queue, l."group", sum(w.slots) AS slots
FROM (SELECT DISTINCT queue, "group", worker_id FROM steps_worker_lanes WHERE queue @in(:queues text)) AS l
JOIN steps_workers w ON w.id = l.worker_id AND w.alive_until > :now
GROUP BY l.queue, l."group";

-- name: lease_holders(workers)
SELECT id, heartbeat_at, alive_until FROM steps_workers WHERE id @in(:workers text);

-- name: paused_workflows(workflows)
SELECT workflow_id AS id, paused_at, paused_by, reason AS paused_reason FROM steps_paused_workflows
WHERE workflow_id @in(:workflows uuid);

-- name: parents_to_decide_soon(ids, now)
-- Those of the parents that the next tick decides, because they or their children are marked, or that one decides now.
SELECT p.id FROM steps p
WHERE p.id @in(:ids bigint)
  AND (EXISTS (SELECT 1 FROM steps_dispatcher d WHERE d."group" = p."group" AND d.lock_deadline > :now)
       OR EXISTS (SELECT 1 FROM steps_marks m JOIN steps c ON c.id = m.step_id
                  WHERE m."group" = p."group" AND (c.id = p.id OR c.parent_step_id = p.id)));

-- name: groups_to_decide(groups, now)
-- Groups whose next tick has something to decide, or that are in a tick.
SELECT d."group" FROM steps_dispatcher d
WHERE d."group" @in(:groups text)
  AND (d.lock_deadline > :now OR EXISTS (SELECT 1 FROM steps_marks m WHERE m."group" = d."group"));

-- Reading.

-- name: step_by_id(id)
SELECT * FROM steps WHERE id = :id;

-- name: step_by_uuid(uuid)
SELECT * FROM steps WHERE uuid = :uuid;

-- name: history(step_id)
SELECT id, step_id, from_state, to_state, reason, actor, at, attempt, error
FROM step_transitions WHERE step_id = :step_id ORDER BY id;

-- name: tree_below(id)
WITH RECURSIVE tree (id, depth) AS (
    SELECT s.id, 0 FROM steps s WHERE s.id = :id
    UNION
    SELECT c.id, t.depth + 1 FROM tree t JOIN steps p ON p.id = t.id JOIN steps c
        ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
)
SELECT t.depth, s.* FROM tree t JOIN steps s ON s.id = t.id;

-- name: steps_of_block(block)
SELECT * FROM steps WHERE block_uuid = :block AND block_uuid <> uuid ORDER BY type, "index", id;

-- name: steps_of_workflow(workflow)
SELECT * FROM steps WHERE uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid ORDER BY id;

-- name: dependencies_of(id)
SELECT d.* FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id WHERE e.step_id = :id ORDER BY d.id;

-- name: counts_by_state()
SELECT state, count(*) AS steps FROM steps GROUP BY state;

-- name: counts_by_group()
SELECT "group", state, count(*) AS steps FROM steps
WHERE state IN ('Pending', 'Dispatched', 'Running') GROUP BY "group", state;

-- name: agenda_by_status()
SELECT status, count(*) AS steps FROM steps_agenda GROUP BY status;

-- name: live_workers(now)
SELECT id, hostname, pid, slots, started_at, heartbeat_at, alive_until FROM workers
WHERE alive_until > :now ORDER BY hostname, pid;

-- name: all_workers(now)
-- Also those that died, as long as their rows are kept.
SELECT w.id, w.hostname, w.pid, w.slots, w.started_at, w.heartbeat_at, w.alive_until, w.alive_until > :now AS alive,
       (SELECT count(*) FROM steps s
        WHERE s.id IN (SELECT step_id FROM steps_agenda WHERE status = 'running') AND s.lease_worker = w.id) AS running
FROM workers w ORDER BY w.hostname, w.started_at;

-- name: lanes_of_workers()
SELECT worker_id, queue, action, place FROM worker_lanes ORDER BY worker_id, place, queue, action;

-- name: logs_of_step(step_id)
SELECT id, attempt, at, level, message FROM step_logs WHERE step_id = :step_id ORDER BY id;

-- name: readiness(id)
SELECT r.*, a.status, coalesce(a.key_blocked, false) AS key_blocked FROM step_readiness r LEFT JOIN steps_agenda a ON a.step_id = r.step_id WHERE r.step_id = :id;

-- name: lane_is_served(queue, action, now)
SELECT count(*) AS workers FROM lanes_served WHERE queue = :queue AND action = :action AND alive_until > :now;

-- name: queue_room(queue, now)
SELECT coalesce((SELECT sum(w.slots) FROM workers w WHERE w.alive_until > :now
                 AND EXISTS (SELECT 1 FROM worker_lanes l WHERE l.worker_id = w.id AND l.queue = :queue)), 0) AS slots,
       (SELECT count(*) FROM steps_agenda a WHERE a.status = 'dispatched' AND a.queue = :queue) AS dispatched;

-- name: unconcluded_before(block, type, index)
SELECT s.id, s.label, s.action, s.state, s.reason, s."index" FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE u.block_uuid = :block AND u.type = :type AND u."index" < :index ORDER BY s."index", s.id LIMIT 20;

-- name: workflow_pause(workflow)
SELECT paused_at, paused_by, paused_reason FROM workflows WHERE id = :workflow AND paused_at IS NOT NULL;

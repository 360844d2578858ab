-- The data that `explain` reads.

-- name: can_begin(queue, action, group, now)
-- Whether a live worker serves the lane and no limit of 0 closes it.
SELECT 1 AS yes FROM steps_lanes_served
WHERE queue = :queue AND action = :action AND "group" IN ('', :group) AND alive_until > :now AND NOT closed LIMIT 1;

-- name: holders_of_key(key)
SELECT s.id, s.label, s.action, s.state FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.concurrency_key = :key AND (a.status IN ('dispatched', 'running') OR a.status = 'open' AND NOT a.key_blocked)
ORDER BY s.id LIMIT 10;

-- name: readiness(id)
SELECT r.*, a.status, coalesce(a.key_blocked, false) AS key_blocked FROM step_readiness r LEFT JOIN steps_agenda a ON a.step_id = r.step_id WHERE r.step_id = :id;

-- name: lane_is_served(queue, action, group, now)
SELECT count(*) AS workers FROM steps_lanes_served
WHERE queue = :queue AND action = :action AND "group" IN ('', :group) AND alive_until > :now;

-- name: queue_room(queue, group, now)
SELECT coalesce((SELECT sum(w.slots) FROM steps_workers w WHERE w.alive_until > :now
                 AND EXISTS (SELECT 1 FROM steps_worker_lanes l WHERE l.worker_id = w.id AND l.queue = :queue AND l."group" IN ('', :group))), 0) AS slots,
       (SELECT count(*) FROM steps_agenda a
        WHERE a.status = 'dispatched' AND a.queue = :queue AND @takes_room(a, :group)) AS dispatched;

-- name: unconcluded_before(block, type, index)
SELECT s.id, s.label, s.action, s.state, s.reason, s."index" FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE u.block_uuid = :block AND u.type = :type AND u."index" < :index ORDER BY s."index", s.id LIMIT 20;

-- name: workflow_pause(workflow)
SELECT paused_at, paused_by, paused_reason FROM steps_workflows WHERE id = :workflow AND paused_at IS NOT NULL;

-- name: serves_other_groups(queue, action, now)
SELECT 1 AS yes FROM steps_lanes_served WHERE queue = :queue AND action = :action AND alive_until > :now LIMIT 1;

-- name: claim(worker, actor, hostname, limit, now, deadline)
UPDATE steps SET state = 'Running', reason = NULL, attempts = attempts + 1, lease_worker = :worker,
    lease_token = lease_token + 1, lease_deadline = :deadline, hostname = :hostname, started_at = :now, actor = :actor,
    updated_at = :now, changed_from = state
WHERE state = 'Dispatched' AND id IN (
    SELECT a.step_id FROM worker_lanes l
    JOIN steps_agenda a ON a.stage = 'dispatched' AND a.queue = l.queue AND a.action = l.action
    WHERE l.worker_id = :worker
    ORDER BY a.rank, a.step_id LIMIT :limit)
RETURNING *;

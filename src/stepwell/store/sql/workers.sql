-- Worker rows, lanes and leases.

-- name: register_worker(id, hostname, pid, slots, now, alive_until)!
INSERT INTO steps_workers (id, hostname, pid, slots, started_at, heartbeat_at, alive_until)
VALUES (:id, :hostname, :pid, :slots, :now, :now, :alive_until);

-- name: leases_of_worker(worker)
-- Every lease that the worker holds, with the current state of its step.
SELECT id, lease_token, state, lease_deadline FROM steps
WHERE id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') AND lease_worker = :worker;

-- name: is_registered(worker)
SELECT 1 AS yes FROM steps_workers WHERE id = :worker;

-- name: lanes_if_lapsed(worker, now)
-- The lanes of a worker, if its heartbeat has lapsed.
SELECT l.queue, l.action FROM steps_workers w JOIN steps_worker_lanes l ON l.worker_id = w.id
WHERE w.id = :worker AND w.alive_until <= :now;

-- name: heartbeat(id, now, alive_until)!
UPDATE steps_workers SET heartbeat_at = :now, alive_until = :alive_until WHERE id = :id;

-- name: delete_worker(id)!
DELETE FROM steps_workers WHERE id = :id;

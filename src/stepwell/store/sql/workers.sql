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

-- name: lanes_of_worker(worker)
SELECT queue, action FROM steps_worker_lanes WHERE worker_id = :worker;

-- name: lock_worker(worker)
-- Until when it counted as alive. The row stays locked until its heartbeat is written.
SELECT alive_until FROM steps_workers WHERE id = :worker @postgres(FOR NO KEY UPDATE);

-- name: heartbeat(id, now, alive_until)!
UPDATE steps_workers SET heartbeat_at = :now, alive_until = :alive_until WHERE id = :id;

-- name: delete_worker(id)!
DELETE FROM steps_workers WHERE id = :id;

-- The reaper's queries and transitions. There are only about as many leases and Dispatched steps as there are slots, so
-- their ids are read from the agenda first, then the rows. (For a join, SQLite may scan all of `steps` for a Bloom filter.)

-- name: dead_leases(of_tasks, now)
-- `of_tasks`: runs of tasks of main processes, which the reschedule beat ends; else all other leases.
SELECT s.id, s.action, s.state, s.rescues, s.lease_worker, s.lease_token, w.alive_until, w.heartbeat_at
FROM steps s LEFT JOIN steps_workers w ON w.id = s.lease_worker
WHERE s.id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') AND s.lease_worker IS NOT NULL
  AND @lease_is_dead(s, w, :now)
  AND (s.state = 'Running' AND coalesce(s.belongs_to, '') = 'process') = CAST(:of_tasks AS boolean)
ORDER BY s.id;  -- reapers that end them at the same time lock the rows in the same order

-- name: still_dead(ids, now)
-- The same check, repeated in the transaction that ends the leases of these steps.
SELECT s.id, s.lease_token
FROM steps s LEFT JOIN steps_workers w ON w.id = s.lease_worker
WHERE s.id @in(:ids bigint) AND s.lease_worker IS NOT NULL
  AND @lease_is_dead(s, w, :now);

-- name: heartbeats()
SELECT id, heartbeat_at, alive_until FROM steps_workers WHERE alive_until > heartbeat_at;

-- name: expire_worker(worker, heartbeat_at, now)!
UPDATE steps_workers SET alive_until = :now WHERE id = :worker AND heartbeat_at = :heartbeat_at AND alive_until > :now;

-- name: unclaimed(now, before)
-- Dispatched steps whose lane no live worker serves, or that no worker has claimed since `before`.
SELECT s.id, s.action
FROM steps s
WHERE s.id @in(SELECT step_id FROM steps_agenda WHERE status = 'dispatched') AND s.state = 'Dispatched'
  AND (s.updated_at <= :before
       OR NOT EXISTS (SELECT 1 FROM steps_lanes_served l
                      WHERE l.queue = s.queue AND l.action = s.action AND l."group" IN ('', s."group") AND l.alive_until > :now));

-- name: recover(id, actor, now)
UPDATE steps SET @to('Pending'), reason = 'recovered', is_throttled = false
WHERE id = :id AND state = 'Dispatched'
@changes;

-- name: has_expired_rows(now, before)
SELECT 1 AS yes WHERE EXISTS (SELECT 1 FROM steps_workers WHERE alive_until <= :before)
                   OR EXISTS (SELECT 1 FROM steps_dispatcher WHERE lock_deadline <= :now);

-- name: delete_dead_workers(before)!
DELETE FROM steps_workers WHERE alive_until <= :before;

-- name: release_dead_locks(now)!
UPDATE steps_dispatcher SET lock_owner = NULL, lock_deadline = NULL, current_tick_id = NULL WHERE lock_deadline <= :now;

-- name: next_runnable_by_group(now)
-- For each group, the first step that a free slot could claim now.
WITH busy (worker_id, leases) AS (
    SELECT lease_worker, count(*) FROM steps
    WHERE id @in(SELECT step_id FROM steps_agenda WHERE status = 'running') GROUP BY lease_worker
), lanes (queue, action, "group") AS (
    SELECT DISTINCT l.queue, l.action, l."group"
    FROM steps_workers w JOIN steps_worker_lanes l ON l.worker_id = w.id LEFT JOIN busy h ON h.worker_id = w.id
    WHERE w.alive_until > :now AND w.slots > coalesce(h.leases, 0)
      AND @is_dispatching
)
SELECT head."group", min(head.step_id) AS step_id
FROM (SELECT d."group", (SELECT a.step_id FROM steps_agenda a
                         WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = d."group" AND a.queue = l.queue AND a.action = l.action
                         ORDER BY a.rank, a.step_id LIMIT 1) AS step_id
      FROM steps_dispatcher d JOIN lanes l ON l."group" IN ('', d."group")) AS head
WHERE head.step_id IS NOT NULL
GROUP BY head."group";

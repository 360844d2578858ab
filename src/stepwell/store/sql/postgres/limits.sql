-- name: lock_limits()
-- One claim at a time while there are limits: so they are exact.
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name FOR UPDATE;

-- name: mark_keys_of_lanes(queues, actions, worker, now)!
-- What waits there with a key is looked at again: a worker has come or gone, and no other one serves the lane.
INSERT INTO steps_key_marks (concurrency_key)
SELECT DISTINCT a.concurrency_key FROM steps_agenda a
WHERE a.concurrency_key IS NOT NULL AND a.status = 'open'
  AND a.queue = ANY(CAST(:queues AS text[])) AND a.action = ANY(CAST(:actions AS text[]))
  AND NOT EXISTS (SELECT 1 FROM lanes_served l
                  WHERE l.queue = a.queue AND l.action = a.action AND l.alive_until > :now AND l.worker_id <> :worker);

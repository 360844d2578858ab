-- name: lock_limits()
-- The write lock already keeps every other claim out.
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

-- name: mark_keys_of_lanes(queues, actions, worker, now)!
-- What waits there with a key is looked at again: a worker has come or gone, and no other one serves the lane.
INSERT INTO steps_key_marks (concurrency_key)
SELECT DISTINCT a.concurrency_key FROM steps_agenda a
WHERE a.concurrency_key IS NOT NULL AND a.status = 'open'
  AND a.queue IN (SELECT value FROM json_each(:queues)) AND a.action IN (SELECT value FROM json_each(:actions))
  AND NOT EXISTS (SELECT 1 FROM lanes_served l
                  WHERE l.queue = a.queue AND l.action = a.action AND l.alive_until > :now AND l.worker_id <> :worker);

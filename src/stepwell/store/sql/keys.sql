-- Concurrency keys: no more than `concurrency_limit` of the steps with one key are unblocked, dispatched or running.

-- name: marked_keys(limit)
SELECT DISTINCT concurrency_key FROM (SELECT concurrency_key FROM steps_key_marks ORDER BY id LIMIT :limit) AS first;

-- name: delete_key_marks(key)!
DELETE FROM steps_key_marks WHERE concurrency_key = :key;

-- name: block_key_again(key, now)!
-- An unblocked step that cannot start (`can_begin`) must not keep the key from the others.
UPDATE steps_agenda SET key_blocked = true
WHERE concurrency_key = :key AND status = 'open' AND NOT key_blocked
  AND NOT EXISTS (SELECT 1 FROM steps_lanes_served l
                  WHERE l.queue = steps_agenda.queue AND l.action = steps_agenda.action AND l."group" IN ('', steps_agenda."group")
                    AND l.alive_until > :now AND NOT l.closed);

-- name: unblock_key(key, now)!
-- Unblocks the first steps that wait for the key and can start, up to the limit. Every unblocked step counts against the
-- limit: `block_key_again` ran before, in a statement of its own that waits for claims in progress.
UPDATE steps_agenda SET key_blocked = false WHERE step_id @in(
    SELECT a.step_id FROM steps_agenda a
    WHERE a.concurrency_key = :key AND a.status = 'open' AND a.key_blocked
      AND EXISTS (SELECT 1 FROM steps_lanes_served l
                  WHERE l.queue = a.queue AND l.action = a.action AND l."group" IN ('', a."group") AND l.alive_until > :now AND NOT l.closed)
    ORDER BY a.rank, a.step_id
    LIMIT coalesce((
           SELECT CASE WHEN s.concurrency_limit > taken.number THEN s.concurrency_limit - taken.number ELSE 0 END
           FROM (SELECT count(*) AS number FROM steps_agenda t
                 WHERE t.concurrency_key = :key AND (t.status IN ('dispatched', 'running') OR t.status = 'open' AND NOT t.key_blocked)
                ) AS taken
           CROSS JOIN (SELECT x.step_id FROM steps_agenda x
                       WHERE x.concurrency_key = :key AND x.status = 'open' AND x.key_blocked
                         AND EXISTS (SELECT 1 FROM steps_lanes_served l
                                     WHERE l.queue = x.queue AND l.action = x.action AND l."group" IN ('', x."group") AND l.alive_until > :now AND NOT l.closed)
                       ORDER BY x.rank, x.step_id LIMIT 1) AS first
           JOIN steps s ON s.id = first.step_id), 0));

-- name: keys_without_workers(now)
-- Keys of unblocked steps whose lane no live worker serves any more.
SELECT DISTINCT a.concurrency_key
FROM steps_lanes_served d JOIN steps_agenda a ON a.status = 'open' AND NOT a.key_blocked AND a.queue = d.queue AND a.action = d.action AND d."group" IN ('', a."group")
WHERE d.alive_until <= :now AND a.concurrency_key IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_lanes_served l WHERE l.queue = a.queue AND l.action = a.action AND l."group" IN ('', a."group") AND l.alive_until > :now)
  AND NOT EXISTS (SELECT 1 FROM steps_key_marks m WHERE m.concurrency_key = a.concurrency_key);

-- name: mark_key(key)!
INSERT INTO steps_key_marks (concurrency_key) VALUES (:key);

-- name: mark_keys_under_limit(kind, name)!
INSERT INTO steps_key_marks (concurrency_key)
SELECT DISTINCT a.concurrency_key FROM steps_agenda a
WHERE a.concurrency_key IS NOT NULL AND a.status = 'open' AND CASE :kind WHEN 'queue' THEN a.queue ELSE a.action END = :name;

-- name: mark_keys_of_lanes(queues, actions, worker, now)!
-- A worker started or stopped and no other one serves these lanes: the keys of steps that wait there are checked again.
INSERT INTO steps_key_marks (concurrency_key)
SELECT DISTINCT a.concurrency_key FROM steps_agenda a
WHERE a.concurrency_key IS NOT NULL AND a.status = 'open'
  AND a.queue @in(:queues text) AND a.action @in(:actions text)
  AND NOT EXISTS (SELECT 1 FROM steps_lanes_served l
                  WHERE l.queue = a.queue AND l.action = a.action AND l."group" IN ('', a."group") AND l.alive_until > :now AND l.worker_id <> :worker);

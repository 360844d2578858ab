-- Limits: how many steps may run at once.

-- name: limits()
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

-- name: running_of_queues()
-- Whoever holds a lease takes room, also after its step was cancelled: until its process has let go.
SELECT queue, action, count(*) AS running FROM steps_agenda WHERE status = 'running' GROUP BY queue, action;

-- name: set_limit(kind, name, maximum)!
INSERT INTO steps_limits (kind, name, maximum) VALUES (:kind, :name, :maximum)
ON CONFLICT (kind, name) DO UPDATE SET maximum = excluded.maximum;

-- name: lift_limit(kind, name)!
DELETE FROM steps_limits WHERE kind = :kind AND name = :name;

-- name: limits_of_code()
-- What `max_running` said when a worker last looked: so a limit that differs from it is known to be an operator's.
SELECT name, value FROM settings WHERE substr(name, 1, 15) = 'max_running of ';

-- name: note_limit_of_code(name, maximum, now)!
INSERT INTO settings (name, value, changed_by, changed_at) VALUES (:name, :maximum, 'worker', :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at;

-- name: forget_limit_of_code(name)!
DELETE FROM settings WHERE name = :name;

-- name: marked_keys(limit)
SELECT DISTINCT concurrency_key FROM (SELECT concurrency_key FROM steps_key_marks ORDER BY id LIMIT :limit) AS first;

-- name: forget_key_marks(key)!
DELETE FROM steps_key_marks WHERE concurrency_key = :key;

-- name: can_begin(queue, action, now)
-- Whether a live worker serves the lane, and no limit of 0 closes it.
SELECT 1 AS yes FROM lanes_served
WHERE queue = :queue AND action = :action AND alive_until > :now AND NOT closed LIMIT 1;

-- name: block_key_again(key, now)!
-- Who was let pass and cannot begin (`can_begin`) does not keep the key from the others.
UPDATE steps_agenda SET key_blocked = true
WHERE concurrency_key = :key AND status = 'open' AND NOT key_blocked
  AND NOT EXISTS (SELECT 1 FROM lanes_served l
                  WHERE l.queue = steps_agenda.queue AND l.action = steps_agenda.action
                    AND l.alive_until > :now AND NOT l.closed);

-- name: unblock_key(key, now)!
-- The first in line of those that wait for a key and can begin, as many as there are places. All that were let pass
-- count: whoever cannot begin is key_blocked again before, in a statement that waits for claims under way.
UPDATE steps_agenda SET key_blocked = false WHERE step_id IN (
    SELECT a.step_id FROM steps_agenda a
    WHERE a.concurrency_key = :key AND a.status = 'open' AND a.key_blocked
      AND EXISTS (SELECT 1 FROM lanes_served l
                  WHERE l.queue = a.queue AND l.action = a.action AND l.alive_until > :now AND NOT l.closed)
    ORDER BY a.rank, a.step_id
    LIMIT coalesce((
           SELECT CASE WHEN s.concurrency_limit > taken.number THEN s.concurrency_limit - taken.number ELSE 0 END
           FROM (SELECT count(*) AS number FROM steps_agenda t
                 WHERE t.concurrency_key = :key AND (t.status IN ('dispatched', 'running') OR t.status = 'open' AND NOT t.key_blocked)
                ) AS taken
           CROSS JOIN (SELECT x.step_id FROM steps_agenda x
                       WHERE x.concurrency_key = :key AND x.status = 'open' AND x.key_blocked
                         AND EXISTS (SELECT 1 FROM lanes_served l
                                     WHERE l.queue = x.queue AND l.action = x.action AND l.alive_until > :now AND NOT l.closed)
                       ORDER BY x.rank, x.step_id LIMIT 1) AS first
           JOIN steps s ON s.id = first.step_id), 0));

-- name: keys_left_behind(now)
-- Keys of steps that were let pass, and whose workers have died since.
SELECT DISTINCT a.concurrency_key
FROM lanes_served d JOIN steps_agenda a ON a.status = 'open' AND NOT a.key_blocked AND a.queue = d.queue AND a.action = d.action
WHERE d.alive_until <= :now AND a.concurrency_key IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM lanes_served l WHERE l.queue = a.queue AND l.action = a.action AND l.alive_until > :now)
  AND NOT EXISTS (SELECT 1 FROM steps_key_marks m WHERE m.concurrency_key = a.concurrency_key);

-- name: mark_key(key)!
INSERT INTO steps_key_marks (concurrency_key) VALUES (:key);

-- name: mark_keys_under_limit(kind, name)!
INSERT INTO steps_key_marks (concurrency_key)
SELECT DISTINCT a.concurrency_key FROM steps_agenda a
WHERE a.concurrency_key IS NOT NULL AND a.status = 'open' AND CASE :kind WHEN 'queue' THEN a.queue ELSE a.action END = :name;

-- name: holders_of_key(key)
SELECT s.id, s.label, s.action, s.state FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.concurrency_key = :key AND (a.status IN ('dispatched', 'running') OR a.status = 'open' AND NOT a.key_blocked)
ORDER BY s.id LIMIT 10;

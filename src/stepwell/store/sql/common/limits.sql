-- Limits: how many steps may run at once.

-- name: limits()
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

-- name: running_of_queues()
-- Whoever holds a lease takes room, also after its step was cancelled: until its process has let go.
SELECT queue, action, count(*) AS running FROM steps_agenda WHERE stage = 'running' GROUP BY queue, action;

-- name: set_limit(kind, name, maximum)!
INSERT INTO steps_limits (kind, name, maximum) VALUES (:kind, :name, :maximum)
ON CONFLICT (kind, name) DO UPDATE SET maximum = excluded.maximum;

-- name: lift_limit(kind, name)!
DELETE FROM steps_limits WHERE kind = :kind AND name = :name;

-- name: marked_keys(limit)
SELECT DISTINCT concurrency_key FROM (SELECT concurrency_key FROM steps_key_marks ORDER BY id LIMIT :limit) AS first;

-- name: forget_key_marks(key)!
DELETE FROM steps_key_marks WHERE concurrency_key = :key;

-- name: let_pass(key)!
-- The first in line of those that wait for a key, as many as there are places.
UPDATE steps_agenda SET held = false WHERE step_id IN (
    SELECT a.step_id FROM steps_agenda a
    WHERE a.concurrency_key = :key AND a.stage = 'open' AND a.held
    ORDER BY a.rank, a.step_id
    LIMIT coalesce((
           SELECT CASE WHEN s.concurrency_limit > taken.number THEN s.concurrency_limit - taken.number ELSE 0 END
           FROM (SELECT count(*) AS number FROM steps_agenda t
                 WHERE t.concurrency_key = :key AND (t.stage IN ('dispatched', 'running') OR t.stage = 'open' AND NOT t.held)
                ) AS taken
           CROSS JOIN (SELECT x.step_id FROM steps_agenda x
                       WHERE x.concurrency_key = :key AND x.stage = 'open' AND x.held
                       ORDER BY x.rank, x.step_id LIMIT 1) AS first
           JOIN steps s ON s.id = first.step_id), 0));

-- name: holders_of_key(key)
SELECT s.id, s.label, s.action, s.state FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.concurrency_key = :key AND (a.stage IN ('dispatched', 'running') OR a.stage = 'open' AND NOT a.held)
ORDER BY s.id LIMIT 10;

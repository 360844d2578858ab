-- How many steps may run at once: in all, of a queue, of an action.

-- name: limits()
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

-- name: running_by_lane()
-- Whoever holds a lease takes room, also after its step was cancelled: until its process has let go.
SELECT queue, action, count(*) AS running FROM steps_agenda WHERE status = 'running' GROUP BY queue, action;

-- name: set_limit(kind, name, maximum)!
INSERT INTO steps_limits (kind, name, maximum) VALUES (:kind, :name, :maximum)
ON CONFLICT (kind, name) DO UPDATE SET maximum = excluded.maximum;

-- name: delete_limit(kind, name)!
DELETE FROM steps_limits WHERE kind = :kind AND name = :name;

-- name: code_limits()
-- What `max_running` said when a worker last looked: so a limit that differs from it is known to be an operator's.
SELECT name, value FROM settings WHERE substr(name, 1, 15) = 'max_running of ';

-- name: record_code_limit(name, maximum, now)!
INSERT INTO settings (name, value, changed_by, changed_at) VALUES (:name, :maximum, 'worker', :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at;

-- name: delete_code_limit(name)!
DELETE FROM settings WHERE name = :name;

-- name: lock_limits()
-- One claim at a time while there are limits: so they are exact.
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name @postgres(FOR UPDATE);

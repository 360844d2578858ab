-- How many steps may run at once: in total, per queue, per action.

-- name: limits()
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

-- name: running_by_lane()
-- A lease counts until it is released, even if its step has been cancelled: its process still runs.
SELECT queue, action, count(*) AS running FROM steps_agenda WHERE status = 'running' GROUP BY queue, action;

-- name: remember_shares(kind, name, shares)!
UPDATE steps_limits SET shares = :shares WHERE kind = :kind AND name = :name;

-- name: set_limit(kind, name, maximum)!
INSERT INTO steps_limits (kind, name, maximum) VALUES (:kind, :name, :maximum)
ON CONFLICT (kind, name) DO UPDATE SET maximum = excluded.maximum WHERE steps_limits.maximum <> excluded.maximum;

-- name: delete_limit(kind, name)!
DELETE FROM steps_limits WHERE kind = :kind AND name = :name;

-- name: code_limits()
-- The `max_running` of each job when a worker last started: a limit that differs from it was set by an operator.
SELECT substr(name, 16) AS action, CAST(value AS integer) AS maximum FROM steps_settings WHERE substr(name, 1, 15) = 'max_running of ';

-- name: record_code_limit(action, maximum, now)!
INSERT INTO steps_settings (name, value, changed_by, changed_at)
VALUES ('max_running of ' || :action, CAST(:maximum AS text), 'worker', :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, changed_at = excluded.changed_at;

-- name: delete_code_limit(action)!
DELETE FROM steps_settings WHERE name = 'max_running of ' || :action;

-- name: lock_limits()
-- While limits are set, claims run one at a time, so that the limits are exact.
SELECT kind, name, maximum, shares FROM steps_limits ORDER BY kind, name @postgres(FOR UPDATE);

-- name: aliases()
SELECT name, alias_of FROM steps_actions WHERE alias_of IS NOT NULL;

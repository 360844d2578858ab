-- What the jobs of the workers declare.

-- name: declared_actions(names)
SELECT * FROM steps_actions WHERE name @in(:names text);

-- name: all_actions()
SELECT * FROM steps_actions ORDER BY name;

-- name: record_action(name, alias_of, queue, priority, max_retries, timeout, cooldown, concurrency_key, key_function, concurrency_limit, weight, max_running, now, by)!
INSERT INTO steps_actions (name, alias_of, queue, priority, max_retries, timeout, cooldown, concurrency_key, key_function,
                           concurrency_limit, weight, max_running, recorded_at, recorded_by)
VALUES (:name, :alias_of, :queue, :priority, :max_retries, :timeout, :cooldown, :concurrency_key, :key_function,
        :concurrency_limit, :weight, :max_running, :now, :by)
ON CONFLICT (name) DO UPDATE SET alias_of = excluded.alias_of, queue = excluded.queue, priority = excluded.priority,
    max_retries = excluded.max_retries, timeout = excluded.timeout, cooldown = excluded.cooldown,
    concurrency_key = excluded.concurrency_key, key_function = excluded.key_function,
    concurrency_limit = excluded.concurrency_limit, weight = excluded.weight, max_running = excluded.max_running,
    recorded_at = excluded.recorded_at, recorded_by = excluded.recorded_by;

-- name: delete_alias(name)!
DELETE FROM steps_actions WHERE name = :name AND alias_of IS NOT NULL;

-- name: aliases_of(actions)
SELECT name FROM steps_actions WHERE alias_of @in(:actions text);

-- name: add_unresolved(ids, left_out)!
-- A step that was written a second time, after a lost answer, is noted already.
INSERT INTO steps_unsettled (step_id, action, left_out)
SELECT s.id, s.action, new.left_out
FROM @sqlite((SELECT i.value AS id, l.value AS left_out FROM json_each(:ids) i JOIN json_each(:left_out) l ON l.key = i.key) AS new)
     @postgres(unnest(CAST(:ids AS bigint[]), CAST(:left_out AS text[])) AS new (id, left_out))
JOIN steps s ON s.id = new.id WHERE true
ON CONFLICT DO NOTHING;

-- name: declared_but_unresolved(known)
-- Actions that have been recorded since steps of them were created; without those whose key needs code that is not known here.
SELECT a.name FROM steps_actions a
WHERE (a.key_function IS NULL OR a.name @in(:known text)) AND EXISTS (SELECT 1 FROM steps_unsettled u WHERE u.action = a.name);

-- name: unresolved_steps(names, limit)
-- In the order in which they were created: a parent before its children, which inherit its priority.
SELECT s.id, s.action, s.arguments, s.queue, s.priority, s.max_retries, s.timeout, s.cooldown, s.concurrency_key,
       s.concurrency_limit, u.left_out
FROM steps_unsettled u JOIN steps s ON s.id = u.step_id
WHERE u.action @in(:names text) ORDER BY u.step_id LIMIT :limit @postgres(FOR UPDATE OF u SKIP LOCKED);

-- name: priority_of_parent(id)
SELECT p.priority FROM steps s JOIN steps p ON p.id = s.parent_step_id WHERE s.id = :id;

-- name: write_late_settings(id, queue, priority, max_retries, timeout, cooldown, concurrency_key, concurrency_limit)!
UPDATE steps SET queue = :queue, priority = :priority, max_retries = :max_retries, timeout = :timeout, cooldown = :cooldown,
    concurrency_key = :concurrency_key, concurrency_limit = :concurrency_limit, changed_from = NULL
WHERE id = :id AND attempts = 0 AND state NOT IN ('Dispatched', 'Running');

-- name: write_late_settings_to_agenda(id)!
UPDATE steps_agenda SET queue = s.queue, rank = CASE s.priority WHEN 'high' THEN 0 ELSE 1 END,
    concurrency_key = s.concurrency_key, key_blocked = s.concurrency_key IS NOT NULL
FROM steps s
WHERE s.id = :id AND steps_agenda.step_id = s.id;

-- name: delete_unresolved(ids)!
DELETE FROM steps_unsettled WHERE step_id @in(:ids bigint);

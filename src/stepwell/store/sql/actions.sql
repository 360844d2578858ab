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

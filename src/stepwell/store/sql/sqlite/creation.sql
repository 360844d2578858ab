-- name: next_step_ids(count)
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'steps'), 0) + :count AS last;

-- name: next_rotation_numbers(count)
UPDATE steps_round_robin SET next = next + :count RETURNING next - 1 AS last;

-- name: create_independent(uuid, action, arguments, label, relatable_type, relatable_id, queue, rotation, priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit, now)
-- A step without connections to others: its group from the rotation, its row (and, by trigger, its history), its agenda
-- entry.
UPDATE steps_round_robin SET next = next + 1;
INSERT INTO steps (uuid, workflow_id, block_uuid, "index", action, arguments, label, relatable_type, relatable_id, queue,
                   "group", priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit,
                   placed, created_at, updated_at)
VALUES (:uuid, :uuid, :uuid, 1, :action, :arguments, :label, :relatable_type, :relatable_id, :queue,
        (SELECT json_extract(:rotation, '$[' || ((next - 1) % json_array_length(:rotation)) || ']') FROM steps_round_robin),
        :priority, :max_retries, :dispatch_after, :timeout, :cooldown, :concurrency_key, :concurrency_limit,
        true, :now, :now);
INSERT INTO @agenda
SELECT id, CASE WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END, @agenda_entry(steps)
FROM steps WHERE uuid = :uuid
RETURNING step_id AS id;

-- name: lock_keys(keys)
SELECT 1 AS locked WHERE :keys IS NOT NULL;

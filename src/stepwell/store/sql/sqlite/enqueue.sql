-- name: next_step_ids(count)
SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'steps'), 0) + :count AS last;

-- name: next_rotation_numbers(count)
UPDATE steps_round_robin SET next = next + :count RETURNING next - 1 AS last;

-- name: create_alone(uuid, action, arguments, label, relatable_type, relatable_id, queue, rotation, priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit, now)
-- A step that has to do with no other: its turn, its row (and, by trigger, its history), its place on the agenda.
UPDATE steps_round_robin SET next = next + 1;
INSERT INTO steps (uuid, workflow_id, block_uuid, "index", action, arguments, label, relatable_type, relatable_id, queue,
                   "group", priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit,
                   placed, created_at, updated_at)
VALUES (:uuid, :uuid, :uuid, 1, :action, :arguments, :label, :relatable_type, :relatable_id, :queue,
        (SELECT json_extract(:rotation, '$[' || ((next - 1) % json_array_length(:rotation)) || ']') FROM steps_round_robin),
        :priority, :max_retries, :dispatch_after, :timeout, :cooldown, :concurrency_key, :concurrency_limit,
        true, :now, :now);
INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
SELECT id, CASE WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END, "group", queue, action,
       CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, concurrency_key, concurrency_key IS NOT NULL
FROM steps WHERE uuid = :uuid
RETURNING step_id AS id;

-- name: lock_steps(ids, uuids)
SELECT id, uuid, label, action, state, reason, type, "group", workflow_id, priority, parent_step_id, block_uuid,
       child_block_uuid, "index"
FROM steps
WHERE id IN (SELECT value FROM json_each(:ids)) OR uuid IN (SELECT value FROM json_each(:uuids));

-- name: blocks_of_these_names(uuids)
SELECT s.block_uuid AS name FROM json_each(:uuids) AS u CROSS JOIN steps s
WHERE s.block_uuid = u.value AND s.block_uuid <> s.uuid AND s.placed
UNION
SELECT s.child_block_uuid FROM json_each(:uuids) AS u CROSS JOIN steps s WHERE s.child_block_uuid = u.value;

-- name: note_dependents(ids)!
UPDATE steps SET has_dependents = true, changed_from = NULL WHERE id IN (SELECT value FROM json_each(:ids)) AND NOT has_dependents;

-- name: lock_name(name)
-- The write lock already keeps everyone else out.
SELECT 1 AS held WHERE :name IS NOT NULL;

-- name: lock_keys(keys)
SELECT 1 AS held WHERE :keys IS NOT NULL;

-- name: steps_with_keys(keys)
SELECT s.id, s.uuid, s.action, s.arguments, s.idempotency_key
FROM json_each(:keys) AS key CROSS JOIN steps s WHERE s.idempotency_key = key.value;

-- name: new_steps(limit)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' ORDER BY a.step_id LIMIT :limit;

-- name: new_step(id)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' AND a.step_id = :id;

-- name: enrol_in_blocks(first, last)!
INSERT INTO steps_unconcluded (step_id, block_uuid, type, "index", ended)
SELECT id, block_uuid, type, "index", state NOT IN ('Pending', 'Dispatched', 'Running')
FROM steps
WHERE id BETWEEN :first AND :last AND (parent_step_id IS NOT NULL OR block_uuid <> uuid)
  AND state NOT IN ('Completed', 'Skipped')
ON CONFLICT DO NOTHING;

-- name: enrol_on_agenda(first, last, now)!
-- Steps that wait for nobody go straight on the agenda.
INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
SELECT id, CASE WHEN retries > max_retries THEN 'exhausted'
                WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END,
       "group", queue, action, CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, concurrency_key,
       concurrency_key IS NOT NULL
FROM steps
WHERE id BETWEEN :first AND :last AND state = 'Pending' AND placed
  AND parent_step_id IS NULL AND block_uuid = uuid AND dependencies = 0
  AND NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = steps.workflow_id AND w.paused_at IS NOT NULL);

-- name: enrol_on_marks(first, last, ids)!
-- The others are looked at by the next tick, unless they were let in by now, or their parent's own code has yet to be done:
-- its end will see to them. (Not to those that stand behind something that ended badly before: nothing announces that again.)
INSERT INTO steps_marks ("group", step_id)
SELECT s."group", s.id FROM steps s LEFT JOIN steps p ON p.id = s.parent_step_id
WHERE s.id BETWEEN :first AND :last AND (:ids IS NULL OR s.id IN (SELECT value FROM json_each(:ids)))
  AND s.placed AND s.state IN ('Pending', 'NotRunnable')
  AND CASE WHEN p.id IS NULL THEN s.block_uuid <> s.uuid OR s.dependencies > 0
           ELSE p.own_code_done_at IS NOT NULL OR p.state = 'NotRunnable' OR s.dependencies > 0
                OR EXISTS (SELECT 1 FROM steps_unconcluded u
                           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" < s."index" AND u.ended)
      END
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

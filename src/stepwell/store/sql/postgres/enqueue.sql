-- name: next_step_ids(count)
SELECT nextval('steps_id_seq') AS id FROM generate_series(1, :count);

-- name: next_turns(count)
-- A sequence: nobody waits for anybody, also inside long transactions.
SELECT nextval('steps_round_robin') AS turn FROM generate_series(1, :count);

-- name: lock_steps(ids, uuids)
SELECT id, uuid, label, action, state, reason, type, "group", workflow_id, priority, parent_step_id, block_uuid,
       child_block_uuid, "index"
FROM steps
WHERE id = ANY(CAST(:ids AS bigint[])) OR uuid = ANY(CAST(:uuids AS uuid[]))
ORDER BY id
FOR NO KEY UPDATE;

-- name: follow_steps(ids)!
UPDATE steps SET followed = true, changed_from = NULL WHERE id = ANY(CAST(:ids AS bigint[])) AND NOT followed;

-- name: lock_name(name)
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:name AS text), 0)) IS NULL AS held;

-- name: new_steps(limit)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.stage = 'new' ORDER BY a.step_id LIMIT :limit
FOR UPDATE OF a SKIP LOCKED;

-- name: next_step_ids(count)
WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :count)
SELECT n + coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'steps'), 0) AS id FROM numbers;

-- name: next_turns(count)
-- The last turn of `count`; they are consecutive, for nobody else writes meanwhile.
UPDATE steps_round_robin SET next = next + :count RETURNING next AS turn;

-- name: lock_steps(ids, uuids)
SELECT id, uuid, label, action, state, reason, type, "group", workflow_id, priority, parent_step_id, block_uuid,
       child_block_uuid, "index"
FROM steps
WHERE id IN (SELECT value FROM json_each(:ids)) OR uuid IN (SELECT value FROM json_each(:uuids));

-- name: follow_steps(ids)!
UPDATE steps SET followed = true, changed_from = NULL WHERE id IN (SELECT value FROM json_each(:ids)) AND NOT followed;

-- name: lock_name(name)
-- The write lock already keeps everyone else out.
SELECT 1 AS held WHERE :name IS NOT NULL;

-- name: new_steps(limit)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.stage = 'new' ORDER BY a.step_id LIMIT :limit;

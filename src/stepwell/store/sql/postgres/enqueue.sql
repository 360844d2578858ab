-- name: next_step_ids(count)
SELECT array_agg(nextval('steps_id_seq')) AS numbers FROM generate_series(1, :count);

-- name: next_rotation_numbers(count)
-- A sequence: nobody waits for anybody, also inside long transactions.
SELECT array_agg(nextval('steps_round_robin')) AS numbers FROM generate_series(1, :count);

-- name: create_alone(uuid, action, arguments, label, relatable_type, relatable_id, queue, rotation, priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit, now, news)
-- A step that has to do with no other, in one round trip: its turn, its row (and, by trigger, its history), its place on
-- the agenda, the news of it. Said twice, because the answer to the first time was lost, it is the same step.
WITH turn AS (
    SELECT nextval('steps_round_robin') AS number
), created AS (
    INSERT INTO steps (uuid, workflow_id, block_uuid, "index", action, arguments, label, relatable_type, relatable_id,
                       queue, "group", priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key,
                       concurrency_limit, placed, created_at, updated_at)
    SELECT CAST(:uuid AS uuid), CAST(:uuid AS uuid), CAST(:uuid AS uuid), 1, :action, CAST(:arguments AS json), :label,
           :relatable_type, :relatable_id, :queue,
           (CAST(:rotation AS text[]))[1 + mod(number, cardinality(CAST(:rotation AS text[])))], :priority, :max_retries,
           CAST(:dispatch_after AS timestamptz), :timeout, :cooldown, :concurrency_key, :concurrency_limit, true, :now, :now
    FROM turn
    ON CONFLICT (uuid) DO NOTHING
    RETURNING id, "group", queue, action, priority, dispatch_after, concurrency_key
), enrolled AS (
    INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
    SELECT id, CASE WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END, "group", queue, action,
           CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, concurrency_key, concurrency_key IS NOT NULL
    FROM created
)
SELECT id, (SELECT count(pg_notify('stepwell:' || current_schema(), said))
            FROM unnest(CAST(:news AS text[])) AS said) AS told FROM created
UNION ALL SELECT id, 0 FROM steps WHERE uuid = CAST(:uuid AS uuid);

-- name: lock_steps(ids, uuids)
SELECT id, uuid, label, action, state, reason, type, "group", workflow_id, priority, parent_step_id, block_uuid,
       child_block_uuid, "index"
FROM steps
WHERE id = ANY(CAST(:ids AS bigint[])) OR uuid = ANY(CAST(:uuids AS uuid[]))
ORDER BY id
FOR NO KEY UPDATE;

-- name: blocks_of_these_names(uuids)
SELECT block_uuid AS name FROM steps
WHERE block_uuid = ANY(CAST(:uuids AS uuid[])) AND block_uuid <> uuid AND placed
UNION
SELECT child_block_uuid FROM steps WHERE child_block_uuid = ANY(CAST(:uuids AS uuid[]));

-- name: note_dependents(ids)!
UPDATE steps SET has_dependents = true, changed_from = NULL WHERE id = ANY(CAST(:ids AS bigint[])) AND NOT has_dependents;

-- name: lock_name(name)
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:name AS text), 0)) IS NULL AS locked;

-- name: lock_keys(keys)
-- In one order for everyone, so that two who use the same keys do not wait for each other.
SELECT count(pg_advisory_xact_lock(name)) AS locked
FROM (SELECT hashtextextended('key ' || key, 0) AS name FROM unnest(CAST(:keys AS text[])) AS key ORDER BY name) AS names;

-- name: steps_with_keys(keys)
SELECT id, uuid, action, arguments, idempotency_key FROM steps WHERE idempotency_key = ANY(CAST(:keys AS text[]));

-- name: new_steps(limit)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' ORDER BY a.step_id LIMIT :limit
FOR UPDATE OF a SKIP LOCKED;

-- name: new_step(id)
SELECT s.* FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' AND a.step_id = :id
FOR UPDATE OF a SKIP LOCKED;

-- name: enrol_in_blocks(first, last, ids)!
-- `ids` is NULL when the range holds no one else's: measured, it is read in half the time of an array.
INSERT INTO steps_unconcluded (step_id, block_uuid, type, "index", ended)
SELECT id, block_uuid, type, "index", state NOT IN ('Pending', 'Dispatched', 'Running')
FROM steps
WHERE id BETWEEN :first AND :last AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(CAST(:ids AS bigint[])))
  AND (parent_step_id IS NOT NULL OR block_uuid <> uuid)
  AND state NOT IN ('Completed', 'Skipped')
ON CONFLICT DO NOTHING;

-- name: enrol_on_agenda(first, last, ids, now)!
-- Steps that wait for nobody go straight on the agenda.
INSERT INTO steps_agenda (step_id, status, "group", queue, action, rank, due_at, concurrency_key, key_blocked)
SELECT id, CASE WHEN retries > max_retries THEN 'exhausted'
                WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END,
       "group", queue, action, CASE priority WHEN 'high' THEN 0 ELSE 1 END, dispatch_after, concurrency_key,
       concurrency_key IS NOT NULL
FROM steps
WHERE id BETWEEN :first AND :last AND (CAST(:ids AS bigint[]) IS NULL OR id = ANY(CAST(:ids AS bigint[])))
  AND state = 'Pending' AND placed
  AND parent_step_id IS NULL AND block_uuid = uuid AND dependencies = 0
  AND NOT EXISTS (SELECT 1 FROM workflows w WHERE w.id = steps.workflow_id AND w.paused_at IS NOT NULL);

-- name: enrol_on_marks(first, last, ids)!
-- The others are looked at by the next tick, unless they were let in by now, or their parent's own code has yet to be done:
-- its end will see to them. (Not to those that stand behind something that ended badly before: nothing announces that again.)
INSERT INTO steps_marks ("group", step_id)
SELECT s."group", s.id FROM steps s LEFT JOIN steps p ON p.id = s.parent_step_id
WHERE s.id BETWEEN :first AND :last AND (CAST(:ids AS bigint[]) IS NULL OR s.id = ANY(CAST(:ids AS bigint[])))
  AND s.placed AND s.state IN ('Pending', 'NotRunnable')
  AND CASE WHEN p.id IS NULL THEN s.block_uuid <> s.uuid OR s.dependencies > 0
           ELSE p.own_code_done_at IS NOT NULL OR p.state = 'NotRunnable' OR s.dependencies > 0
                OR EXISTS (SELECT 1 FROM steps_unconcluded u
                           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" < s."index" AND u.ended)
      END
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

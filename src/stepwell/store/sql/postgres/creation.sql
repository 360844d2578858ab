-- name: next_step_ids(count)
SELECT array_agg(nextval('steps_id_seq')) AS numbers FROM generate_series(1, :count);

-- name: next_rotation_numbers(count)
-- A sequence: transactions do not wait for each other, however long they are.
SELECT array_agg(nextval('steps_round_robin')) AS numbers FROM generate_series(1, :count);

-- name: create_independent(uuid, action, arguments, label, relatable_type, relatable_id, queue, rotation, priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key, concurrency_limit, now, wakes)
-- A step without connections to others, in one round trip: its group from the rotation, its row (and, by trigger, its
-- history), its agenda entry and the wake-ups. Repeated after a lost answer, it returns the same step.
WITH rotation AS (
    SELECT nextval('steps_round_robin') AS number
), created AS (
    INSERT INTO steps (uuid, workflow_id, block_uuid, "index", action, arguments, label, relatable_type, relatable_id,
                       queue, "group", priority, max_retries, dispatch_after, timeout, cooldown, concurrency_key,
                       concurrency_limit, placed, created_at, updated_at)
    SELECT CAST(:uuid AS uuid), CAST(:uuid AS uuid), CAST(:uuid AS uuid), 1, :action, CAST(:arguments AS json), :label,
           :relatable_type, :relatable_id, :queue,
           (CAST(:rotation AS text[]))[1 + mod(number, cardinality(CAST(:rotation AS text[])))], :priority, :max_retries,
           CAST(:dispatch_after AS timestamptz), :timeout, :cooldown, :concurrency_key, :concurrency_limit, true, :now, :now
    FROM rotation
    ON CONFLICT (uuid) DO NOTHING
    RETURNING id, "group", queue, action, priority, dispatch_after, concurrency_key, updated_at
), added AS (
    INSERT INTO @agenda
    SELECT id, CASE WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END, @agenda_entry(created)
    FROM created
)
SELECT id, (SELECT count(pg_notify(left('stepwell:' || current_schema(), 63), wake))
            FROM unnest(CAST(:wakes AS text[])) AS wake) AS sent FROM created
UNION ALL SELECT id, 0 FROM steps WHERE uuid = CAST(:uuid AS uuid);

-- name: lock_keys(keys)
-- Always in the same order, so that two transactions with the same keys cannot deadlock. Two schemas of a database have
-- different locks: the number of the table is part of the name.
SELECT count(pg_advisory_xact_lock(name)) AS locked
FROM (SELECT hashtextextended('key ' || key, CAST(CAST('steps' AS regclass) AS bigint)) AS name FROM unnest(CAST(:keys AS text[])) AS key ORDER BY name) AS names;

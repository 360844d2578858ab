-- The counters: how many steps there are, by state and by what they are about (docs/decisions/0012-counters.md).

-- name: counted_rows()
-- What the counters must say: a count over `steps`. For `doctor` and the tests.
SELECT @counted(s, state), count(*) AS number FROM (SELECT x.*, parent_step_id IS NOT NULL AS child FROM steps x) AS s
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: counters()
-- The totals and what has not been added to them yet, as of one moment.
SELECT state, action, queue, "group", hostname, child, throttled, CAST(sum(number) AS bigint) AS number FROM (
    SELECT state, action, queue, "group", hostname, child, throttled, number FROM steps_totals
    UNION ALL SELECT @counted(t, to_state), t.number FROM steps_tally t WHERE t.to_state IS NOT NULL
    UNION ALL SELECT @counted(t, from_state), - t.number FROM steps_tally t WHERE t.from_state IS NOT NULL
) AS moved
GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(number) <> 0;

-- name: oldest_ready()
-- Since when the step that has waited longest for a worker could have run.
SELECT min(CASE WHEN a.due_at > a.since THEN a.due_at ELSE a.since END) AS since
FROM steps_agenda a WHERE a.status = 'open' AND NOT a.key_blocked;

-- name: empty_tally()!
DELETE FROM steps_tally;

-- name: empty_totals()!
DELETE FROM steps_totals;

-- name: count_again()!
INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number)
SELECT @counted(s, state), count(*) FROM (SELECT x.*, parent_step_id IS NOT NULL AS child FROM steps x) AS s
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: empty_trouble()!
DELETE FROM steps_trouble;

-- name: list_trouble_again()!
INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at)
SELECT @trouble(s) FROM steps s WHERE s.state IN @troubled;

-- name: running_by_group()
-- Whose own code runs: as many as there are slots, and no more.
SELECT "group", count(*) AS steps FROM steps_agenda WHERE status = 'running' GROUP BY "group";

-- name: tally_length(most)
-- How many changes of counters are not folded yet. In each of the two tables, counting ends at `most`.
SELECT (SELECT count(*) FROM (SELECT 1 FROM steps_tally LIMIT :most) AS changes)
     + (SELECT count(*) FROM (SELECT 1 FROM steps_causes_tally LIMIT :most) AS changes) AS length;

-- name: delete_zero_totals()!
DELETE FROM steps_totals WHERE number = 0;

-- name: add_to_minutes(rows)!
INSERT INTO steps_minutes (minute, action, kind, bucket, number)
SELECT minute, action, kind, bucket, number
FROM @rows(:rows, minute timestamptz, action text, kind text, bucket integer, number bigint) AS new
WHERE true
ON CONFLICT (minute, action, kind, bucket) DO UPDATE SET number = steps_minutes.number + excluded.number;

-- name: delete_minutes(before)!
DELETE FROM steps_minutes WHERE minute < :before;

-- name: minutes_since(since, action)
-- What is on record, and what is not folded yet, as of one moment; of one action or of all. A minute is one row, because rows are
-- what costs Python time (a day of them: 17,000).
SELECT minute, @sqlite(group_concat)@postgres(string_agg)(kind || ' ' || bucket || ' ' || number, ',') AS numbers, NULL AS waits, NULL AS runs
FROM steps_minutes WHERE minute >= :since AND (CAST(:action AS text) IS NULL OR action = :action) GROUP BY minute
UNION ALL
SELECT @minute(t.at), @happened(t) || ' 0 ' || t.number,
       @sqlite(t.waits, t.runs)@postgres(array_to_string(t.waits, ','), array_to_string(t.runs, ','))
FROM steps_tally t WHERE t.at >= :since AND (CAST(:action AS text) IS NULL OR t.action = :action);

-- name: tally_ended(ids)!
-- The endings of a batch of which Python does not know all columns.
INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number)
SELECT changed_from, state, action, queue, "group", hostname, parent_step_id IS NOT NULL, is_throttled, max(updated_at), count(*)
FROM steps WHERE id @in(:ids bigint)
GROUP BY changed_from, state, action, queue, "group", hostname, parent_step_id IS NOT NULL, is_throttled;

-- name: tally_waits(ids, now)!
-- How long these steps have waited for the worker that claims them.
INSERT INTO steps_tally (action, child, is_throttled, at, number, waits)
SELECT action, false, false, :now, 0,
       @sqlite(group_concat(round((julianday(:now) - julianday(max(since, coalesce(due_at, since)))) * 86400, 4)))
       @postgres(array_agg(extract(epoch FROM CAST(:now AS timestamptz) - greatest(since, due_at))))
FROM steps_agenda WHERE step_id @in(:ids bigint) GROUP BY action;

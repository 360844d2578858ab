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
SELECT @trouble(s) FROM steps s WHERE s.state IN ('Failed', 'Stopped', 'Cancelled', 'NotRunnable');

-- name: has_tally()
SELECT EXISTS (SELECT 1 FROM steps_tally) AS found;

-- name: tally_with_times()
-- What is not in the minutes yet.
SELECT from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number, waits, runs
FROM steps_tally WHERE at IS NOT NULL;

-- name: add_to_totals(rows)!
INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number)
SELECT state, action, queue, "group", hostname, child, throttled, number
FROM @rows(:rows, state text, action text, queue text, "group" text, hostname text, child boolean, throttled boolean, number bigint) AS new
WHERE true
ON CONFLICT (state, action, queue, "group", hostname, child, throttled) DO UPDATE SET number = steps_totals.number + excluded.number;

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

-- name: minutes_since(since)
SELECT minute, action, kind, bucket, number FROM steps_minutes WHERE minute >= :since;

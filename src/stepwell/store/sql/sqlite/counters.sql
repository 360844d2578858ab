-- name: tally_through(limit)
-- The last one of the oldest changes of counters.
SELECT max(id) AS through FROM (SELECT rowid AS id FROM steps_tally ORDER BY rowid LIMIT :limit);

-- name: take_tally(through)
-- Adds the oldest changes of counters to the totals and to the minutes, and deletes them. Returns their waits and runs.
INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number)
SELECT state, action, queue, "group", hostname, child, throttled, sum(number) FROM (
    SELECT @counted(t, to_state), t.number FROM steps_tally t WHERE t.to_state IS NOT NULL AND t.rowid <= :through
    UNION ALL SELECT @counted(t, from_state), - t.number FROM steps_tally t WHERE t.from_state IS NOT NULL AND t.rowid <= :through)
WHERE true GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(number) <> 0
ON CONFLICT (state, action, queue, "group", hostname, child, throttled) DO UPDATE SET number = number + excluded.number;
INSERT INTO steps_minutes (minute, action, kind, bucket, number)
SELECT @minute(t.at), t.action, @happened(t), 0, sum(t.number) FROM steps_tally t
WHERE t.rowid <= :through AND t.at IS NOT NULL AND @happened(t) IS NOT NULL GROUP BY 1, 2, 3
ON CONFLICT (minute, action, kind, bucket) DO UPDATE SET number = number + excluded.number;
DELETE FROM steps_tally WHERE rowid <= :through AND waits IS NULL AND runs IS NULL;
DELETE FROM steps_tally WHERE rowid <= :through RETURNING @minute(at) AS minute, action, waits, runs;

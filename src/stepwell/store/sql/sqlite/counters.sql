-- name: take_tally(limit)
-- The oldest changes of counters, which the caller adds to the totals in the same transaction.
DELETE FROM steps_tally WHERE rowid IN (SELECT rowid FROM steps_tally ORDER BY rowid LIMIT :limit)
RETURNING from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number, waits, runs;

-- name: take_tally(limit)
-- Some changes of counters, which the caller adds to the totals in the same transaction. Another one takes other rows.
DELETE FROM steps_tally WHERE ctid = ANY(ARRAY(SELECT ctid FROM steps_tally LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING from_state, to_state, action, queue, "group", hostname, child, is_throttled, at, number, waits, runs;

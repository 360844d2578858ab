-- name: tally_through(limit)
-- Rows are committed in any order: it is how many to take.
SELECT CAST(:limit AS bigint) AS through WHERE EXISTS (SELECT 1 FROM steps_tally);

-- name: take_tally(through)
-- Adds some changes of counters to the totals and to the minutes, and deletes them. Returns their waits and runs. Of two
-- transactions at once, the later one waits and takes what is left; both write in order, so neither waits in a circle.
WITH gone AS (
    DELETE FROM steps_tally WHERE ctid <= (SELECT max(ctid) FROM (SELECT ctid FROM steps_tally LIMIT :through) AS first)
    RETURNING *
), alike AS (
    SELECT from_state, to_state, action COLLATE "C" AS action, queue COLLATE "C" AS queue, "group" COLLATE "C" AS "group",
           hostname COLLATE "C" AS hostname, child, is_throttled, sum(number) AS number
    FROM gone GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
), totals AS (
    INSERT INTO steps_totals (state, action, queue, "group", hostname, child, throttled, number)
    SELECT state, action, queue, "group", hostname, child, throttled, sum(number) FROM (
        SELECT @counted(t, to_state), t.number FROM alike t WHERE t.to_state IS NOT NULL
        UNION ALL SELECT @counted(t, from_state), - t.number FROM alike t WHERE t.from_state IS NOT NULL) AS moved
    GROUP BY 1, 2, 3, 4, 5, 6, 7 HAVING sum(number) <> 0 ORDER BY 1, 2, 3, 4, 5, 6, 7
    ON CONFLICT (state, action, queue, "group", hostname, child, throttled) DO UPDATE SET number = steps_totals.number + excluded.number
), minutes AS (
    INSERT INTO steps_minutes (minute, action, kind, bucket, number)
    SELECT @minute(t.at), t.action, @happened(t), 0, sum(t.number) FROM gone t
    WHERE t.at IS NOT NULL AND @happened(t) IS NOT NULL GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (minute, action, kind, bucket) DO UPDATE SET number = steps_minutes.number + excluded.number
)
SELECT @minute(at) AS minute, action, string_agg(array_to_string(waits, ','), ',') AS waits,
       string_agg(array_to_string(runs, ','), ',') AS runs
FROM gone WHERE at IS NOT NULL AND (waits IS NOT NULL OR runs IS NOT NULL) GROUP BY 1, 2;

-- The counters, for people: how many steps there are, by state and by what they are about.

-- name: counted_rows()
-- What the counters must say: a count over `steps`. For `doctor` and the tests.
SELECT @counted(s), count(*) AS steps FROM steps s GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: counters()
SELECT @counted(s), count(*) AS steps FROM steps s GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: oldest_ready(now)
-- Since when the step that has waited longest for a worker could have run.
SELECT min(CASE WHEN a.due_at > s.created_at THEN a.due_at ELSE s.created_at END) AS since
FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a.status = 'open' AND NOT a.key_blocked AND (a.due_at IS NULL OR a.due_at <= :now);

-- name: open_ready(ids, now)!
INSERT INTO @agenda
SELECT s.id, s.status, s."group", s.queue, s.action, s.rank, s.dispatch_after, CAST(:now AS timestamptz),
       s.concurrency_key, s.concurrency_key IS NOT NULL
FROM unnest(CAST(:ids AS bigint[])) AS candidate (id)
CROSS JOIN LATERAL (
    SELECT s.id, s."group", s.queue, s.action, s.dispatch_after, s.concurrency_key, CASE s.priority WHEN 'high' THEN 0 ELSE 1 END AS rank,
           CASE WHEN NOT r.retries_left THEN 'exhausted' WHEN s.dispatch_after > :now THEN 'delayed' ELSE @opened(s) END AS status
    FROM steps s JOIN step_readiness r ON r.step_id = s.id
    WHERE s.id = candidate.id AND s.state = 'Pending'
      AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = candidate.id)
      AND @ready(r)
    LIMIT 1 -- keeps the planner from choosing another join order
    FOR SHARE OF s -- another transaction may have opened it, and a worker run it, since this statement began
) AS s
ON CONFLICT (step_id) DO NOTHING;

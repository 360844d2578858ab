-- name: open_ready(ids, now)!
INSERT INTO @agenda
SELECT s.id,
       CASE WHEN NOT r.retries_left THEN 'exhausted' WHEN s.dispatch_after > :now THEN 'delayed' ELSE @opened(s) END,
       @agenda_entry(s, :now)
FROM json_each(:ids) AS candidate CROSS JOIN steps s CROSS JOIN step_readiness r
WHERE s.id = candidate.value AND s.state = 'Pending'
  AND r.step_id = s.id AND @ready(r)
ON CONFLICT (step_id) DO NOTHING;

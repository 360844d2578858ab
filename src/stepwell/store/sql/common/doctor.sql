-- What `stepwell doctor` asks beyond the promises and the sweep.

-- name: unserved_lanes(now)
-- Work that could be done now if there were a live worker for its queue and action.
SELECT a.queue, a.action, count(*) AS steps FROM steps_agenda a
WHERE a.status IN ('open', 'dispatched')
  AND NOT EXISTS (SELECT 1 FROM lanes_served l WHERE l.queue = a.queue AND l.action = a.action AND l.alive_until > :now)
GROUP BY a.queue, a.action ORDER BY count(*) DESC, a.queue, a.action;

-- A worker claims steps.

-- name: has_claimable_steps(worker)
-- A cheap read before a claim that no wake-up asked for: a poll that finds nothing takes no lock.
SELECT 1 AS yes
FROM steps_worker_lanes l
WHERE l.worker_id = :worker
  AND ((SELECT a.step_id FROM steps_agenda a
        WHERE a.status = 'dispatched' AND a.queue = l.queue AND a.action = l.action
          AND (l."group" = '' OR a."group" = l."group")
        ORDER BY a.rank, a.step_id LIMIT 1) IS NOT NULL
       OR l."group" = '' AND (SELECT a.step_id FROM steps_agenda a
           WHERE a.status = 'open' AND NOT a.key_blocked AND a.queue = l.queue AND a.action = l.action
           ORDER BY a.rank, a.step_id LIMIT 1) IS NOT NULL
       OR l."group" <> '' AND (SELECT a.step_id FROM steps_agenda a
           WHERE a.status = 'open' AND NOT a.key_blocked AND a."group" = l."group" AND a.queue = l.queue AND a.action = l.action
           ORDER BY a.rank, a.step_id LIMIT 1) IS NOT NULL)
LIMIT 1;

-- name: begin_claim()
-- Whether any limits are set.
SELECT EXISTS (SELECT 1 FROM steps_limits) AS limited @keep_to_indexes;

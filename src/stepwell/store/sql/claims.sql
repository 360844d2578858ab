-- A worker claims steps.

-- macro: lanes
-- The lanes of a worker that are not at a limit, once for each rank.
lanes (queue, action, "group", place, rank) AS (
    SELECT l.queue, l.action, l."group", l.place, r.rank
    FROM steps_worker_lanes l CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    WHERE l.worker_id = :worker
      AND l.queue @not_in(:full_queues text) AND l.action @not_in(:full_actions text)
)

-- name: set_aside(id, actor, message, now)
-- A step that cannot be claimed because of what its row holds; it must not keep the others from being claimed.
UPDATE steps SET @to('Failed'), reason = 'unreadable', error_message = :message, last_error = :message, completed_at = :now,
    lease_worker = NULL, lease_deadline = NULL
WHERE id = :id AND (state IN ('Pending', 'Dispatched') OR state = 'Running' AND lease_worker = substr(:actor, 8))
@changes;

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

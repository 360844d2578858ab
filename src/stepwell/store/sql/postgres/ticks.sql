-- name: pick(group, now, limit, spare, queues)
-- High priority first, but an eighth of the free room (and `spare` more) is reserved for the rest while any wait.
WITH room (queue, free) AS (
    SELECT l.queue, 2 * sum(w.slots) - (SELECT count(*) FROM steps_agenda a
                                         WHERE a.status = 'dispatched' AND a.queue = l.queue AND @takes_room(a, :group))
    FROM (SELECT DISTINCT queue, worker_id FROM steps_worker_lanes WHERE "group" IN ('', :group)) AS l
    JOIN steps_workers w ON w.id = l.worker_id AND w.alive_until > :now
    GROUP BY l.queue
), lanes (queue, action, free) AS (
    SELECT DISTINCT l.queue, l.action, r.free
    FROM room r JOIN steps_lanes_served l ON l.queue = r.queue AND l.alive_until > :now AND l."group" IN ('', :group)
    WHERE r.free > 0 AND r.queue @in(:queues text)
), candidates AS (
    SELECT a.step_id, a.rank, a.queue, lane.free,
           row_number() OVER (PARTITION BY a.queue, a.rank ORDER BY a.step_id) AS place
    FROM lanes AS lane CROSS JOIN (SELECT 0 AS rank UNION ALL SELECT 1) AS r
    CROSS JOIN LATERAL (
        SELECT o.step_id, o.rank, o.queue FROM steps_agenda o
        WHERE o.status = 'open' AND NOT o.key_blocked AND o."group" = :group AND o.queue = lane.queue AND o.action = lane.action
          AND o.rank BETWEEN r.rank AND r.rank -- not `=`: see `pick_for_claim`
          AND (SELECT @eligible(r)
               FROM step_readiness r WHERE r.step_id = o.step_id)
        ORDER BY o.rank, o.step_id LIMIT least(:limit, lane.free)
    ) AS a
), ordered AS (
    SELECT step_id, rank, free, CASE WHEN rank = 0 AND place > free - free / 8 - :spare THEN 2 ELSE rank END AS tier,
           row_number() OVER (
               PARTITION BY queue
               ORDER BY CASE WHEN rank = 0 AND place > free - free / 8 - :spare THEN 2 ELSE rank END, step_id) AS place
    FROM candidates
)
SELECT step_id FROM ordered WHERE place <= free ORDER BY tier, step_id LIMIT :limit;

-- name: dispatch(ids, actor, tick, now)
-- A CASE, so that the planner does not combine two indexes: it would read that of all open steps to find a few of them.
UPDATE steps SET @to('Dispatched'), reason = NULL, tick_id = :tick
WHERE id @in(SELECT a.step_id FROM steps_agenda a
             WHERE a.step_id @in(:ids bigint) AND CASE a.status WHEN 'open' THEN NOT a.key_blocked END
             FOR UPDATE)
  AND state = 'Pending'
@changes;

-- Adding steps to the agenda and removing them, when marks, delays and returns to Pending are processed.

-- name: steps_to_check(group)
-- Steps whose last unmet condition may now be met: the marked steps, the children of a parent whose own code is done,
-- the next index of a block whose current index has concluded, and the dependents.
SELECT m.step_id AS id FROM steps_marks m WHERE m."group" = :group
UNION
SELECT u.step_id
FROM steps_marks m
JOIN steps p ON p.id = m.step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL
JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid AND NOT u.ended
WHERE m."group" = :group
UNION
SELECT u.step_id
FROM (SELECT d.block_uuid, d.type, min(d."index") AS done,
             (SELECT min(x."index") FROM steps_unconcluded x
              WHERE x.block_uuid = d.block_uuid AND x.type = d.type) AS level
      FROM steps_marks m JOIN steps d ON d.id = m.step_id AND d.state IN @concluded
      WHERE m."group" = :group
      GROUP BY d.block_uuid, d.type) AS front
JOIN steps_unconcluded u ON u.block_uuid = front.block_uuid AND u.type = front.type AND u."index" = front.level
WHERE front.level > front.done
UNION
SELECT e.step_id FROM steps_marks m JOIN step_dependencies e ON e.depends_on_id = m.step_id
WHERE m."group" = :group;

-- name: open_returned(ids, now)!
-- `open_unchecked` for steps that return to Pending in this transaction: they need no tick, which may be long in coming if
-- a dispatcher has died with the lock of their group. What is not ready stays unchecked.
UPDATE steps_agenda SET status = (
    SELECT CASE WHEN NOT r.retries_left THEN 'exhausted'
                WHEN steps_agenda.due_at > :now THEN 'delayed' ELSE 'open' END
    FROM step_readiness r WHERE r.step_id = steps_agenda.step_id)
WHERE step_id @in(:ids bigint) AND status = 'unchecked'
  AND (SELECT @ready(r)
       FROM step_readiness r WHERE r.step_id = steps_agenda.step_id);

-- name: open_unchecked(group, now)!
UPDATE steps_agenda SET status = (
    SELECT CASE WHEN NOT r.retries_left THEN 'exhausted'
                WHEN steps_agenda.due_at > :now THEN 'delayed' ELSE @opened(s) END
    FROM step_readiness r JOIN steps s ON s.id = r.step_id WHERE r.step_id = steps_agenda.step_id)
WHERE status = 'unchecked' AND "group" = :group
  AND (SELECT @ready(r)
       FROM step_readiness r WHERE r.step_id = steps_agenda.step_id);

-- name: close_unchecked(group)!
-- These steps wait for others, and are put on the agenda again when those end. Unsatisfiable steps stay: phase 6 of the
-- next tick makes them NotRunnable.
DELETE FROM steps_agenda
WHERE status = 'unchecked' AND "group" = :group
  AND NOT (SELECT r.unsatisfiable OR @ready(r)
           FROM step_readiness r WHERE r.step_id = steps_agenda.step_id);

-- name: open_due(group, now)!
UPDATE steps_agenda SET status = (SELECT @opened(s) FROM steps s WHERE s.id = steps_agenda.step_id)
WHERE status = 'delayed' AND "group" = :group AND due_at <= :now;

-- name: steps_waiting_for(ids)
-- Steps whose last unmet condition may have been the end of these steps (or of their own code): the next index of their
-- blocks, their dependents, their first children.
SELECT u.step_id AS id
FROM (SELECT d.block_uuid, d.type, min(d."index") AS done,
             (SELECT min(x."index") FROM steps_unconcluded x
              WHERE x.block_uuid = d.block_uuid AND x.type = d.type) AS level
      FROM steps d WHERE d.id @in(:ids bigint) AND d.state IN @concluded
      GROUP BY d.block_uuid, d.type) AS front
JOIN steps_unconcluded u ON u.block_uuid = front.block_uuid AND u.type = front.type AND u."index" = front.level
WHERE front.level > front.done
UNION
SELECT e.step_id FROM step_dependencies e WHERE e.depends_on_id @in(:ids bigint)
UNION
SELECT c.step_id
FROM steps p JOIN steps_unconcluded c ON c.block_uuid = p.child_block_uuid AND c.type = 'default'
     AND c."index" = (SELECT min(x."index") FROM steps_unconcluded x
                      WHERE x.block_uuid = p.child_block_uuid AND x.type = 'default')
WHERE p.id @in(:ids bigint) AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL;

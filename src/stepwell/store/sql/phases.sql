-- The state phases of a tick: one guarded, set-based statement each. They read only the neighbours of marked
-- steps; every change they make is marked in turn, so no decision is lost.
-- Readiness is read in a sub-select, one step at a time: in a join, PostgreSQL may compute it for all steps.
-- (CROSS JOIN fixes the join order on SQLite: with statistics it would start with the largest table.)
--
-- The recursive parts read `steps` in a sub-select or by a LEFT JOIN: after ANALYZE, SQLite would scan the whole of an
-- inner-joined table to build a Bloom filter. Rows that do not qualify become NULL and end the recursion, and the UPDATE
-- changes only rows in the right state.

-- name: skip_children(group, actor, now)
-- Descends through every parent below, concluded or not; changes the unconcluded members of their child blocks.
WITH RECURSIVE blocks (child_block_uuid) AS (
    SELECT p.child_block_uuid
    FROM steps_marks m
    JOIN steps p ON p.id = m.step_id AND p.state = 'Skipped' AND p.has_children
    WHERE m."group" = :group
    UNION
    SELECT c.child_block_uuid
    FROM blocks b
    LEFT JOIN steps c ON c.block_uuid = b.child_block_uuid AND c.has_children
)
UPDATE steps SET @to('Skipped'), reason = 'parent_skipped', completed_at = :now
WHERE id @in(SELECT u.step_id FROM blocks b CROSS JOIN steps_unconcluded u WHERE u.block_uuid = b.child_block_uuid)
  AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
@changes;

-- name: cancel_children(group, actor, now)
WITH RECURSIVE blocks (child_block_uuid) AS (
    SELECT p.child_block_uuid
    FROM steps_marks m
    JOIN steps p ON p.id = m.step_id AND p.state = 'Cancelled' AND p.has_children
    WHERE m."group" = :group
    UNION
    SELECT c.child_block_uuid
    FROM blocks b
    LEFT JOIN steps c ON c.block_uuid = b.child_block_uuid AND c.has_children
)
UPDATE steps SET @to('Cancelled'), reason = 'parent_cancelled', completed_at = :now
WHERE id @in(SELECT u.step_id FROM blocks b CROSS JOIN steps_unconcluded u WHERE u.block_uuid = b.child_block_uuid)
  AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
@changes;

-- name: promote_handlers(group, actor, now)
-- A handler is promoted with its descendants. A step may have been failed by hand before its parent's own code was done:
-- then the mark of the parent leads here.
WITH RECURSIVE needed (id, child_block_uuid) AS (
    SELECT h.id, h.child_block_uuid
    FROM steps_marks m
    JOIN steps d ON d.id = m.step_id
    JOIN steps_unconcluded u ON u.block_uuid IN (d.block_uuid, d.child_block_uuid)
                            AND u.type = 'resolve-exception' AND u.ended
    JOIN steps h ON h.id = u.step_id AND h.state = 'NotRunnable' AND h.reason = 'dormant'
    WHERE m."group" = :group
      AND EXISTS (SELECT 1 FROM steps_unconcluded x JOIN steps f ON f.id = x.step_id
                  WHERE x.block_uuid = h.block_uuid AND x.type = 'default' AND x.ended
                    AND f.state IN @failed)
      AND (h.parent_step_id IS NULL
           OR EXISTS (SELECT 1 FROM steps p
                      WHERE p.id = h.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL))
    UNION
    SELECT (SELECT c.id FROM steps c
            WHERE c.id = u.step_id AND c.state = 'NotRunnable' AND c.reason = 'parent_not_runnable'),
           (SELECT c.child_block_uuid FROM steps c
            WHERE c.id = u.step_id AND c.state = 'NotRunnable' AND c.reason = 'parent_not_runnable')
    FROM needed n CROSS JOIN steps_unconcluded u
    WHERE u.block_uuid = n.child_block_uuid
)
UPDATE steps SET @to('Pending'), reason = 'promoted', completed_at = NULL
WHERE id @in(SELECT id FROM needed) AND state = 'NotRunnable'
@changes;

-- name: promote_successors(ids, actor, now)
-- Steps that could not run because these could not: their successors, unless the parent has ended, and their children.
UPDATE steps SET @to('Pending'), reason = 'promoted', completed_at = NULL
WHERE state = 'NotRunnable' AND id @in(
    SELECT s.id
    FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.block_uuid AND u.type = p.type AND u."index" > p."index"
    JOIN steps s ON s.id = u.step_id
    WHERE p.id @in(:ids bigint) AND s.reason = 'predecessor_failed'
    UNION
    SELECT s.id
    FROM step_dependencies e JOIN steps s ON s.id = e.step_id LEFT JOIN steps p ON p.id = s.parent_step_id
    WHERE e.depends_on_id @in(:ids bigint) AND s.reason = 'predecessor_failed'
      AND (p.id IS NULL OR p.state IN @unfinished)
    UNION
    SELECT s.id
    FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid JOIN steps s ON s.id = u.step_id
    WHERE p.id @in(:ids bigint) AND s.reason IN ('predecessor_failed', 'parent_not_runnable')
)
@changes;

-- name: fail_children(group, actor, now)
WITH RECURSIVE below (id, child_block_uuid) AS (
    SELECT c.id, c.child_block_uuid
    FROM steps_marks m
    JOIN steps p ON p.id = m.step_id AND p.state IN @failed
    JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid
    JOIN steps c ON c.id = u.step_id AND c.state IN @unfinished
    WHERE m."group" = :group
    UNION
    SELECT u.step_id, (SELECT c.child_block_uuid FROM steps c
                       WHERE c.id = u.step_id AND c.state IN @unfinished)
    FROM below b CROSS JOIN steps_unconcluded u
    WHERE u.block_uuid = b.child_block_uuid
)
UPDATE steps SET @to('Failed'), reason = 'parent_failed', completed_at = :now
WHERE id @in(SELECT id FROM below) AND state IN @unfinished
@changes;

-- name: mark_not_runnable_in_block(group, actor, now)
UPDATE steps SET @to('NotRunnable'), reason = 'predecessor_failed', completed_at = :now
WHERE state = 'Pending' AND id @in(
    SELECT u.step_id
    FROM (SELECT f.block_uuid, f.type, min(f."index") AS first
          FROM steps_marks m
          JOIN steps f ON f.id = m.step_id AND f.state IN @troubled
                      AND f.lease_worker IS NULL
          WHERE m."group" = :group
          GROUP BY f.block_uuid, f.type) AS failed
    JOIN steps_unconcluded u ON u.block_uuid = failed.block_uuid AND u.type = failed.type AND u."index" > failed.first
    UNION
    SELECT m.step_id FROM steps_marks m
    WHERE m."group" = :group AND (SELECT r.unsatisfiable FROM step_readiness r WHERE r.step_id = m.step_id)
    UNION
    SELECT a.step_id FROM steps_agenda a
    WHERE a.status = 'unchecked' AND a."group" = :group
      AND (SELECT r.unsatisfiable FROM step_readiness r WHERE r.step_id = a.step_id)
)
@changes;

-- name: mark_not_runnable_dependents(group, actor, now)
WITH RECURSIVE unsatisfiable (id) AS (
    SELECT s.id
    FROM steps_marks m
    JOIN steps f ON f.id = m.step_id AND f.state IN @troubled
                AND f.lease_worker IS NULL
    JOIN step_dependencies e ON e.depends_on_id = f.id
    JOIN steps s ON s.id = e.step_id AND s.state = 'Pending'
    WHERE m."group" = :group AND (SELECT r.unsatisfiable FROM step_readiness r WHERE r.step_id = s.id)
    UNION
    SELECT (SELECT s.id FROM steps s
            WHERE s.id = e.step_id AND s.state = 'Pending' AND s.trigger_rule = 'all_concluded')
    FROM unsatisfiable d CROSS JOIN step_dependencies e
    WHERE e.depends_on_id = d.id
)
UPDATE steps SET @to('NotRunnable'), reason = 'predecessor_failed', completed_at = :now
WHERE id @in(SELECT id FROM unsatisfiable) AND state = 'Pending'
@changes;

-- name: mark_not_runnable_descendants(group, actor, now)
WITH RECURSIVE below (id, child_block_uuid) AS (
    SELECT c.id, c.child_block_uuid
    FROM steps_marks m
    JOIN steps p ON p.id = m.step_id AND p.state = 'NotRunnable'
    JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid
    JOIN steps c ON c.id = u.step_id AND c.state = 'Pending'
    WHERE m."group" = :group
    UNION
    SELECT c.id, c.child_block_uuid
    FROM steps_marks m
    JOIN steps c ON c.id = m.step_id AND c.state = 'Pending'
    JOIN steps p ON p.id = c.parent_step_id AND p.state = 'NotRunnable'
    WHERE m."group" = :group
    UNION
    SELECT u.step_id, (SELECT c.child_block_uuid FROM steps c WHERE c.id = u.step_id AND c.state = 'Pending')
    FROM below b CROSS JOIN steps_unconcluded u
    WHERE u.block_uuid = b.child_block_uuid
)
UPDATE steps SET @to('NotRunnable'), reason = 'parent_not_runnable', completed_at = :now
WHERE id @in(SELECT id FROM below) AND state = 'Pending'
@changes;

-- name: fail_exhausted(group, actor, now)
UPDATE steps SET @to('Failed'), reason = 'max_retries_reached',
    error_message = coalesce(error_message, 'MaxRetriesReached: retries exceed max_retries'),
    completed_at = :now
WHERE state = 'Pending' AND retries > max_retries
  AND id @in(SELECT step_id FROM steps_agenda WHERE status = 'exhausted' AND "group" = :group)
@changes;

-- name: complete_parents(ids, actor, now)
UPDATE steps SET @end_after_children('Completed'), reason = 'children_concluded'
WHERE id @in(:ids bigint) AND state = 'Running' AND own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default')
@changes;

-- name: parents_to_decide(group)
-- Adding a child locks its parent first: once this lock is held, the next statement sees every child.
SELECT p.id FROM steps p
WHERE p.state = 'Running' AND p.own_code_done_at IS NOT NULL
  AND p.id @in(
    SELECT CASE WHEN c.state = 'Running' AND c.own_code_done_at IS NOT NULL THEN c.id ELSE c.parent_step_id END
    FROM steps_marks m JOIN steps c ON c.id = m.step_id WHERE m."group" = :group)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = p.child_block_uuid AND NOT u.ended)
ORDER BY p.id @postgres(FOR NO KEY UPDATE);

-- name: fail_parents(ids, actor, now)
UPDATE steps SET @end_after_children('Failed'), reason = 'children_failed',
    error_message = (
        SELECT 'children did not conclude: ' || @sqlite(group_concat)@postgres(string_agg)(named, ', ')
               || CASE WHEN max(total) > 10 THEN ' and ' || (max(total) - 10) || ' more' ELSE '' END
        FROM (SELECT 'step ' || c.id || ' ' || coalesce(c.label, c.action) || ' (' || c.state || ')' AS named,
                     count(*) OVER () AS total
              FROM steps_unconcluded u JOIN steps c ON c.id = u.step_id
              WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default'
              ORDER BY u."index", c.id LIMIT 10) AS listed)
WHERE id @in(:ids bigint) AND state = 'Running' AND own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND NOT u.ended)
  AND EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.block_uuid = steps.child_block_uuid AND u.type = 'default')
  AND NOT EXISTS (
    SELECT 1 FROM steps_unconcluded x JOIN steps h ON h.id = x.step_id
    WHERE x.block_uuid = steps.child_block_uuid AND x.type = 'resolve-exception' AND h.reason = 'dormant'
      AND EXISTS (SELECT 1 FROM steps_unconcluded y JOIN steps f ON f.id = y.step_id
                  WHERE y.block_uuid = x.block_uuid AND y.type = 'default' AND f.state IN @failed))
@changes;

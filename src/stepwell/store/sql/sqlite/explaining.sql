-- name: steps_behind(ids, fan, most)
-- Steps and all steps that they may wait for, now or later, at any depth. Deliberately generous: `look.explain` decides which
-- of them matter. Each step leads only to the next lower index of its block, so a block of n indexes costs n rows, not n * n.
-- `whole`: its end is waited for (or the end of its children), so those matter, too; otherwise only that its own code is done.
-- (LEFT JOIN and sub-selects, as in phases.sql: with statistics, SQLite would scan a table that is inner-joined. What does
-- not qualify becomes NULL.)
WITH RECURSIVE chain (id, whole) AS (
    SELECT s.id, s.state = 'Running' AND s.own_code_done_at IS NOT NULL FROM steps s WHERE s.id @in(:ids bigint)
    UNION
    SELECT (SELECT s.parent_step_id FROM steps s
            WHERE s.id = c.id AND s.state NOT IN @concluded
              AND NOT EXISTS (SELECT 1 FROM steps p WHERE p.id = s.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL)),
           false
    FROM chain c
    UNION
    SELECT u.step_id, true
    FROM chain c
    LEFT JOIN steps s ON s.id = c.id AND s.state NOT IN @concluded
    LEFT JOIN steps_unconcluded u ON u.step_id IN (
        SELECT x.step_id FROM steps_unconcluded x
        WHERE x.block_uuid = s.block_uuid AND x.type = s.type AND x."index" = (
            SELECT y."index" FROM steps_unconcluded y
            WHERE y.block_uuid = s.block_uuid AND y.type = s.type AND y."index" < s."index"
            ORDER BY y."index" DESC LIMIT 1)
        LIMIT :fan)
    UNION
    SELECT (SELECT d.id FROM steps d
            WHERE d.id = e.depends_on_id AND (d.state NOT IN @concluded OR d.lease_worker IS NOT NULL)),
           true
    FROM chain c
    LEFT JOIN step_dependencies e ON e.step_id = (
        SELECT s.id FROM steps s
        WHERE s.id = c.id AND s.dependencies > 0 AND s.state NOT IN @concluded
          AND (s.state <> 'Running' OR s.own_code_done_at IS NULL))
    UNION
    SELECT u.step_id, true
    FROM chain c
    LEFT JOIN steps s ON s.id = c.id AND s.child_block_uuid IS NOT NULL AND s.state NOT IN @concluded
                     AND (c.whole OR s.state IN @retriable)
    LEFT JOIN steps_unconcluded u ON u.step_id IN (
        SELECT x.step_id FROM steps_unconcluded x
        WHERE x.block_uuid = s.child_block_uuid
        ORDER BY x.type, x."index" LIMIT :fan)
    UNION
    SELECT h.step_id, false
    FROM chain c
    LEFT JOIN steps_agenda h ON h.step_id IN (
        SELECT x.step_id FROM steps_agenda x
        WHERE x.concurrency_key = (SELECT s.concurrency_key FROM steps s
                                   WHERE s.id = c.id AND s.state NOT IN @concluded)
          AND (x.status IN ('dispatched', 'running') OR x.status = 'open' AND NOT x.key_blocked)
        LIMIT :fan)
    LIMIT :most
)
SELECT id, whole FROM chain WHERE id IS NOT NULL;

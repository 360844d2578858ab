-- name: steps_behind(id, fan, most)
-- A step and all steps that it may wait for, at any depth. Deliberately generous: `look.explain` decides which of them
-- matter. Each step leads only to the next lower index of its block, so a block of n indexes costs n rows, not n * n.
WITH RECURSIVE chain (id) AS (
    SELECT :id
    UNION
    SELECT s.parent_step_id FROM chain c JOIN steps s ON s.id = c.id
    WHERE s.parent_step_id IS NOT NULL AND s.state NOT IN ('Completed', 'Skipped')
      AND NOT EXISTS (SELECT 1 FROM steps p WHERE p.id = s.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL)
    UNION
    SELECT u.step_id FROM chain c JOIN steps s ON s.id = c.id
    JOIN steps_unconcluded u ON u.step_id IN (
        SELECT x.step_id FROM steps_unconcluded x
        WHERE x.block_uuid = s.block_uuid AND x.type = s.type AND x."index" = (
            SELECT y."index" FROM steps_unconcluded y
            WHERE y.block_uuid = s.block_uuid AND y.type = s.type AND y."index" < s."index"
            ORDER BY y."index" DESC LIMIT 1)
        LIMIT :fan)
    WHERE s.state NOT IN ('Completed', 'Skipped')
    UNION
    SELECT e.depends_on_id FROM chain c JOIN steps s ON s.id = c.id AND s.dependencies > 0 AND s.state IN ('Pending', 'NotRunnable')
    JOIN step_dependencies e ON e.step_id = s.id
    WHERE EXISTS (SELECT 1 FROM steps d WHERE d.id = e.depends_on_id
                  AND (d.state NOT IN ('Completed', 'Skipped') OR d.lease_worker IS NOT NULL))
    UNION
    SELECT u.step_id FROM chain c
    JOIN steps s ON s.id = c.id AND s.child_block_uuid IS NOT NULL
                AND (s.state = 'Running' AND s.own_code_done_at IS NOT NULL OR s.state IN ('Failed', 'Stopped', 'Cancelled'))
    JOIN steps_unconcluded u ON u.step_id IN (
        SELECT x.step_id FROM steps_unconcluded x
        WHERE x.block_uuid = s.child_block_uuid AND (s.state <> 'Running' OR NOT x.ended)
        ORDER BY x.type, x."index" LIMIT :fan)
    UNION
    SELECT h.step_id FROM chain c
    JOIN steps_agenda a ON a.step_id = c.id AND a.status = 'open' AND a.key_blocked
    JOIN steps_agenda h ON h.step_id IN (
        SELECT x.step_id FROM steps_agenda x
        WHERE x.concurrency_key = a.concurrency_key
          AND (x.status IN ('dispatched', 'running') OR x.status = 'open' AND NOT x.key_blocked)
        LIMIT :fan)
    LIMIT :most
)
SELECT id FROM chain;

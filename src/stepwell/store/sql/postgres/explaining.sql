-- name: steps_behind(ids, fan, most)
-- Steps and all steps that they may wait for, at any depth. Deliberately generous: `look.explain` decides which of them
-- matter. Each step leads only to the next lower index of its block, so a block of n indexes costs n rows, not n * n.
WITH RECURSIVE chain (id) AS (
    SELECT s.id FROM steps s WHERE s.id @in(:ids bigint)
    UNION
    SELECT behind.id FROM chain c JOIN steps s ON s.id = c.id CROSS JOIN LATERAL (
        SELECT s.parent_step_id AS id
        WHERE s.parent_step_id IS NOT NULL AND s.state NOT IN ('Completed', 'Skipped')
          AND NOT EXISTS (SELECT 1 FROM steps p WHERE p.id = s.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL)
        UNION ALL
        (SELECT x.step_id FROM steps_unconcluded x
         WHERE s.state NOT IN ('Completed', 'Skipped')
           AND x.block_uuid = s.block_uuid AND x.type = s.type AND x."index" = (
             SELECT y."index" FROM steps_unconcluded y
             WHERE y.block_uuid = s.block_uuid AND y.type = s.type AND y."index" < s."index"
             ORDER BY y."index" DESC LIMIT 1)
         LIMIT :fan)
        UNION ALL
        SELECT e.depends_on_id FROM step_dependencies e
        WHERE e.step_id = s.id AND s.dependencies > 0 AND s.state IN ('Pending', 'NotRunnable')
          AND EXISTS (SELECT 1 FROM steps d WHERE d.id = e.depends_on_id
                      AND (d.state NOT IN ('Completed', 'Skipped') OR d.lease_worker IS NOT NULL))
        UNION ALL
        (SELECT x.step_id FROM steps_unconcluded x
         WHERE x.block_uuid = s.child_block_uuid
           AND (s.state = 'Running' AND s.own_code_done_at IS NOT NULL AND NOT x.ended OR s.state IN ('Failed', 'Stopped', 'Cancelled'))
         ORDER BY x.type, x."index" LIMIT :fan)
        UNION ALL
        (SELECT x.step_id FROM steps_agenda a
         JOIN steps_agenda x ON x.concurrency_key = a.concurrency_key
              AND (x.status IN ('dispatched', 'running') OR x.status = 'open' AND NOT x.key_blocked)
         WHERE a.step_id = s.id AND a.status = 'open' AND a.key_blocked
         LIMIT :fan)
    ) AS behind
)
SELECT id FROM chain LIMIT :most;

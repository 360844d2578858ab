-- name: steps_behind(ids, fan, most)
-- Steps and all steps that they may wait for, now or later, at any depth. Deliberately generous: `look.explain` decides which
-- of them matter. Each step leads only to the next lower index of its block, so a block of n indexes costs n rows, not n * n.
-- `whole`: its end is waited for (or the end of its children), so those matter, too; otherwise only that its own code is done.
WITH RECURSIVE chain (id, whole) AS (
    SELECT s.id, s.state = 'Running' AND s.own_code_done_at IS NOT NULL FROM steps s WHERE s.id @in(:ids bigint)
    UNION
    SELECT behind.id, behind.whole
    FROM chain c JOIN steps s ON s.id = c.id AND s.state NOT IN @concluded CROSS JOIN LATERAL (
        SELECT s.parent_step_id AS id, false AS whole
        WHERE s.parent_step_id IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM steps p WHERE p.id = s.parent_step_id AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL)
        UNION ALL
        (SELECT x.step_id, true FROM steps_unconcluded x
         WHERE x.block_uuid = s.block_uuid AND x.type = s.type AND x."index" = (
             SELECT y."index" FROM steps_unconcluded y
             WHERE y.block_uuid = s.block_uuid AND y.type = s.type AND y."index" < s."index"
             ORDER BY y."index" DESC LIMIT 1)
         LIMIT :fan)
        UNION ALL
        SELECT e.depends_on_id, true FROM step_dependencies e
        WHERE e.step_id = s.id AND s.dependencies > 0 AND (s.state <> 'Running' OR s.own_code_done_at IS NULL)
          AND EXISTS (SELECT 1 FROM steps d WHERE d.id = e.depends_on_id
                      AND (d.state NOT IN @concluded OR d.lease_worker IS NOT NULL))
        UNION ALL
        (SELECT x.step_id, true FROM steps_unconcluded x
         WHERE x.block_uuid = s.child_block_uuid
           AND (c.whole OR s.state IN @retriable)
         ORDER BY x.type, x."index" LIMIT :fan)
        UNION ALL
        (SELECT x.step_id, false FROM steps_agenda x
         WHERE x.concurrency_key = s.concurrency_key
           AND (x.status IN ('dispatched', 'running') OR x.status = 'open' AND NOT x.key_blocked)
         LIMIT :fan)
    ) AS behind
)
SELECT id, whole FROM chain LIMIT :most;

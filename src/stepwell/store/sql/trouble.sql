-- Steps that Failed, were Stopped or Cancelled, or became NotRunnable: by cause, and what stands behind each.

-- name: causes(since, limit)
-- Failures that are alike, the most recent first. A cascaded failure is behind its cause, not beside it.
SELECT f.fingerprint, f.action, f.reason, f.number, f.newest_step, f.first_at, f.last_at, s.error_message AS error
FROM (SELECT t.fingerprint, min(t.action) AS action, min(t.reason) AS reason, count(*) AS number, max(t.step_id) AS newest_step,
             min(t.ended_at) AS first_at, max(t.ended_at) AS last_at
      FROM steps_trouble t
      WHERE t.state IN @failed AND t.cause IS NULL AND (@time(:since) IS NULL OR t.ended_at >= :since)
      GROUP BY t.fingerprint ORDER BY max(t.ended_at) DESC, t.fingerprint LIMIT :limit) AS f
JOIN steps s ON s.id = f.newest_step
ORDER BY f.last_at DESC, f.fingerprint;

-- name: cause(fingerprint)
SELECT f.fingerprint, f.action, f.reason, f.number, f.newest_step, f.first_at, f.last_at, s.error_message AS error
FROM (SELECT t.fingerprint, min(t.action) AS action, min(t.reason) AS reason, count(*) AS number, max(t.step_id) AS newest_step,
             min(t.ended_at) AS first_at, max(t.ended_at) AS last_at
      FROM steps_trouble t
      WHERE t.state IN @failed AND t.cause IS NULL AND t.fingerprint = :fingerprint
      GROUP BY t.fingerprint) AS f
JOIN steps s ON s.id = f.newest_step;

-- name: fingerprint_of(step_id)
SELECT fingerprint FROM steps_trouble WHERE step_id = :step_id;

-- name: behind()
-- How many steps each cause has taken along.
SELECT t.fingerprint, count(*) AS number FROM steps_trouble b JOIN steps_trouble t ON t.step_id = b.cause
WHERE b.cause IS NOT NULL GROUP BY t.fingerprint;

-- name: unresolved(limit)
-- Steps that a cascade ended, and the step before each of them in that cascade; NULL if it is not in trouble any more.
SELECT t.step_id,
       CASE WHEN t.reason IN @ended_with_parent THEN s.parent_step_id
            WHEN t.reason = 'children_failed'
            THEN (SELECT c.step_id FROM steps_unconcluded u JOIN steps_trouble c ON c.step_id = u.step_id
                  WHERE u.block_uuid = s.child_block_uuid AND u.type = 'default' AND u.ended AND c.state IN @failed
                    AND coalesce(c.reason, '') <> 'parent_failed'
                  ORDER BY u."index", c.step_id LIMIT 1)
            ELSE coalesce((SELECT min(p.step_id) FROM step_dependencies e JOIN steps_trouble p ON p.step_id = e.depends_on_id
                           WHERE e.step_id = s.id),
                          (SELECT u.step_id FROM steps_unconcluded u
                           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u.ended AND u."index" < s."index"
                           ORDER BY u."index", u.step_id LIMIT 1))
       END AS direct
FROM steps_trouble t JOIN steps s ON s.id = t.step_id WHERE t.cause = 0 ORDER BY t.step_id LIMIT :limit;

-- name: causes_of(ids)
SELECT step_id, cause FROM steps_trouble WHERE step_id @in(:ids bigint);

-- name: set_causes(rows)!
UPDATE steps_trouble SET cause = new.cause
FROM @rows(:rows, id bigint, cause bigint) AS new
WHERE steps_trouble.step_id = new.id AND steps_trouble.cause = 0;

-- name: has_unresolved()
SELECT EXISTS (SELECT 1 FROM steps_trouble WHERE cause = 0) AS found;

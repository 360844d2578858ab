-- Steps that Failed, were Stopped or Cancelled, or became NotRunnable: by cause, and what stands behind each.

-- macro: numbers
-- What is on record and what is not added yet, as of one moment.
(SELECT fingerprint, CAST(sum(number) AS bigint) AS number, CAST(sum(behind) AS bigint) AS behind
 FROM (SELECT fingerprint, number, behind FROM steps_causes
       UNION ALL SELECT fingerprint, number, behind FROM steps_causes_tally) AS moved
 GROUP BY fingerprint HAVING sum(number) > 0)

-- macro: of_cause
t.fingerprint = n.fingerprint AND t.cause IS NULL AND t.state IN @failed

-- macro: last
-- By the index of causes: the failure that came last.
(SELECT t.step_id FROM steps_trouble t WHERE @of_cause ORDER BY t.ended_at DESC, t.step_id DESC LIMIT 1)

-- macro: shown
l.fingerprint, l.action, l.reason, n.number, n.behind, l.step_id AS newest_step, l.ended_at AS last_at,
(SELECT min(t.ended_at) FROM steps_trouble t WHERE @of_cause) AS first_at,
(SELECT s.error_message FROM steps s WHERE s.id = l.step_id) AS error

-- name: causes(limit)
-- Failures that are alike, the most recent first. A cascaded failure is behind its cause, not beside it.
SELECT @shown
FROM (SELECT n.* FROM (SELECT n.*, @last AS last FROM @numbers AS n) AS n JOIN steps_trouble t ON t.step_id = n.last
      ORDER BY t.ended_at DESC, t.fingerprint LIMIT :limit) AS n
JOIN steps_trouble l ON l.step_id = n.last
ORDER BY l.ended_at DESC, l.fingerprint;

-- name: causes_since(since, limit)
-- The same of what has failed since then.
SELECT l.fingerprint, l.action, l.reason, r.number, r.first_at, n.behind, l.step_id AS newest_step, l.ended_at AS last_at,
       (SELECT s.error_message FROM steps s WHERE s.id = l.step_id) AS error
FROM @numbers AS n
JOIN steps_trouble l ON l.step_id = @last
JOIN (SELECT t.fingerprint, count(*) AS number, min(t.ended_at) AS first_at FROM steps_trouble t
      WHERE t.cause IS NULL AND t.state IN @failed AND t.ended_at >= :since GROUP BY t.fingerprint) AS r
  ON r.fingerprint = n.fingerprint
ORDER BY l.ended_at DESC, l.fingerprint LIMIT :limit;

-- name: cause(fingerprint)
SELECT @shown FROM @numbers AS n JOIN steps_trouble l ON l.step_id = @last WHERE n.fingerprint = :fingerprint;

-- name: count_causes(most)
SELECT count(*) AS number FROM (SELECT 1 AS one FROM @numbers AS n LIMIT :most) AS counted;

-- name: fingerprint_of(step_id)
SELECT fingerprint FROM steps_trouble WHERE step_id = :step_id;

-- name: unresolved(limit)
-- Steps that a cascade ended, and the step before each of them in that cascade; NULL if it is not in trouble any more.
SELECT t.step_id, t.fingerprint,
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
SELECT step_id, cause, coalesce(cause_fingerprint, fingerprint) AS fingerprint FROM steps_trouble WHERE step_id @in(:ids bigint);

-- name: set_causes(rows)!
UPDATE steps_trouble SET cause = new.cause, cause_fingerprint = new.fingerprint
FROM @rows(:rows, id bigint, cause bigint, fingerprint text) AS new
WHERE steps_trouble.step_id = new.id AND steps_trouble.cause = 0;

-- name: has_unresolved()
SELECT EXISTS (SELECT 1 FROM steps_trouble WHERE cause = 0) AS found;

-- name: take_causes(limit)
-- Of two transactions at once, the later one waits and takes what is left.
DELETE FROM steps_causes_tally WHERE id @in(SELECT id FROM steps_causes_tally ORDER BY id LIMIT :limit)
RETURNING fingerprint, number, behind;

-- name: add_to_causes(rows)!
INSERT INTO steps_causes (fingerprint, number, behind)
SELECT fingerprint, number, behind FROM @rows(:rows, fingerprint text, number bigint, behind bigint) AS new
WHERE true
ON CONFLICT (fingerprint) DO UPDATE SET number = steps_causes.number + excluded.number, behind = steps_causes.behind + excluded.behind;

-- name: delete_zero_causes()!
DELETE FROM steps_causes WHERE number = 0 AND behind = 0;

-- name: empty_causes_tally()!
DELETE FROM steps_causes_tally;

-- name: empty_causes()!
DELETE FROM steps_causes;

-- name: count_causes_again()!
INSERT INTO steps_causes (fingerprint, number, behind)
SELECT @cause(t), sum(@alike(t)), sum(@behind(t)) FROM steps_trouble t WHERE @cause(t) IS NOT NULL GROUP BY 1;

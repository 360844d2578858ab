-- Creating steps: their rows, and the updates to existing steps, blocks, agenda and marks.

-- name: rotation()
SELECT "group" FROM steps_dispatcher WHERE rotation IS NOT NULL ORDER BY rotation;

-- name: ensure_group(group)!
INSERT INTO steps_dispatcher ("group") VALUES (:group) ON CONFLICT DO NOTHING;

-- name: queue_names()
SELECT name FROM steps_queues UNION SELECT lower(hostname) FROM steps_workers;

-- name: add_queue(name)!
INSERT INTO steps_queues (name) VALUES (:name) ON CONFLICT DO NOTHING;

-- name: set_child_block(id, child_block)!
UPDATE steps SET child_block_uuid = :child_block, has_children = true, changed_from = NULL WHERE id = :id;

-- name: set_block_has_dependents(block)!
-- A root block that now has more than one step.
UPDATE steps SET has_dependents = true, changed_from = NULL
WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND parent_step_id IS NULL AND NOT has_dependents;

-- name: add_block_members(block)!
INSERT INTO @unconcluded
SELECT @unconcluded_entry(steps)
FROM steps
WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND (state NOT IN @concluded OR lease_worker IS NOT NULL)
ON CONFLICT DO NOTHING;

-- name: mark_unchecked_successors(block, type, index)!
-- Those of them that have just returned to Pending are checked all the same: one may stand behind a failure, too.
INSERT INTO steps_marks ("group", step_id)
SELECT a."group", a.step_id FROM steps_unconcluded u JOIN steps_agenda a ON a.step_id = u.step_id
WHERE u.block_uuid = :block AND u.type = :type AND u."index" > :index AND a.status = 'unchecked';

-- name: remove_successors_from_agenda(block, type, index)!
-- A step was inserted before others of its block: those not dispatched yet now wait for it.
DELETE FROM steps_agenda
WHERE status IN ('open', 'delayed', 'unchecked', 'undecided')
  AND step_id @in(SELECT step_id FROM steps_unconcluded
                  WHERE block_uuid = :block AND type = :type AND "index" > :index);

-- name: set_has_dependents(ids)!
UPDATE steps SET has_dependents = true, changed_from = NULL WHERE id @in(:ids bigint) AND NOT has_dependents;

-- name: add_to_blocks(first, last, ids)!
-- `ids` is NULL when the range contains only these steps: measured, a range takes half the time of an array. On SQLite,
-- the write lock keeps other numbers out of the range.
INSERT INTO @unconcluded
SELECT @unconcluded_entry(steps)
FROM steps
WHERE id BETWEEN :first AND :last AND (@array(:ids bigint) IS NULL OR @sqlite(true)@postgres(id = ANY(CAST(:ids AS bigint[]))))
  AND (parent_step_id IS NOT NULL OR block_uuid <> uuid)
  AND state NOT IN @concluded
ON CONFLICT DO NOTHING;

-- name: add_to_agenda(first, last, ids, now)!
-- Steps that wait for no other step go straight on the agenda.
INSERT INTO @agenda
SELECT id, CASE WHEN retries > max_retries THEN 'exhausted'
                WHEN dispatch_after > :now THEN 'delayed' ELSE 'open' END,
       @agenda_entry(steps)
FROM steps
WHERE id BETWEEN :first AND :last AND (@array(:ids bigint) IS NULL OR @sqlite(true)@postgres(id = ANY(CAST(:ids AS bigint[]))))
  AND state = 'Pending' AND placed
  AND parent_step_id IS NULL AND block_uuid = uuid AND dependencies = 0
  AND NOT EXISTS (SELECT 1 FROM steps_paused_workflows w WHERE w.workflow_id = steps.workflow_id);

-- name: add_marks(first, last, ids)!
-- The next tick checks the others, unless they are on the agenda already or their parent's own code is not done: its end
-- opens them. (Steps after one that has already failed are marked in any case: no later change would mark them. So is a
-- dormant handler before one that waits: that one cannot run any more.)
INSERT INTO steps_marks ("group", step_id)
SELECT s."group", s.id FROM steps s LEFT JOIN steps p ON p.id = s.parent_step_id
WHERE s.id BETWEEN :first AND :last AND (@array(:ids bigint) IS NULL OR s.id @in(:ids bigint))
  AND s.placed AND s.state IN ('Pending', 'NotRunnable')
  AND CASE WHEN p.id IS NULL THEN s.block_uuid <> s.uuid OR s.dependencies > 0
           ELSE p.own_code_done_at IS NOT NULL OR p.state = 'NotRunnable' OR s.dependencies > 0
                OR EXISTS (SELECT 1 FROM steps_unconcluded u
                           WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" < s."index" AND u.ended)
                OR s.state = 'NotRunnable'
                   AND EXISTS (SELECT 1 FROM steps_unconcluded u
                               WHERE u.block_uuid = s.block_uuid AND u.type = s.type AND u."index" > s."index"
                                 AND NOT u.ended)
      END
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

-- name: steps_with_keys(keys)
SELECT id, uuid, action, arguments, idempotency_key FROM steps WHERE idempotency_key @in(:keys text);

-- The full sweep: finds missing marks and wrong agenda or block entries by reading the tables themselves.
-- It should find nothing; what it finds is repaired and reported.

-- name: unmarked_decisions(group)
SELECT p.id, 'all its children have ended, but nothing marks it' AS finding FROM steps p
WHERE p."group" = :group AND p.state = 'Running' AND p.own_code_done_at IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM steps c WHERE c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
                  AND (c.state IN @unfinished OR c.lease_worker IS NOT NULL))
UNION
SELECT p.id, 'it has ended, but some of its children have not' FROM steps p
JOIN steps c ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
WHERE p."group" = :group
  AND (p.state IN ('Skipped', 'Cancelled') AND c.state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
       OR p.state IN @failed AND c.state IN @unfinished
       OR p.state = 'NotRunnable' AND c.state = 'Pending')
UNION
SELECT f.id, 'it failed, but the handlers of its block are still dormant' FROM steps f
JOIN steps h ON h.uuid = f.block_uuid AND h.block_uuid = h.uuid OR h.block_uuid = f.block_uuid AND h.block_uuid <> h.uuid
WHERE f."group" = :group AND f.type = 'default' AND f.state IN @failed AND f.lease_worker IS NULL
  AND h.type = 'resolve-exception' AND h.state = 'NotRunnable' AND h.reason = 'dormant'
  AND coalesce(h.parent_step_id, 0) = coalesce(f.parent_step_id, 0)
  AND (h.parent_step_id IS NULL OR EXISTS (SELECT 1 FROM steps p WHERE p.id = h.parent_step_id AND p.state = 'Running'
                                                                  AND p.own_code_done_at IS NOT NULL))
UNION
SELECT s.id, 'its conditions are unsatisfiable, but it is still Pending' FROM steps s JOIN step_readiness r ON r.step_id = s.id
WHERE s."group" = :group AND s.state = 'Pending' AND r.unsatisfiable
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id AND a.status = 'unchecked')
UNION
SELECT s.id, 'it is ready, but not on the agenda' FROM steps s JOIN step_readiness r ON r.step_id = s.id
WHERE s."group" = :group AND s.state = 'Pending' AND s.placed
  AND @ready(r)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id);

-- name: wrong_agenda_entries(group)
SELECT a.step_id AS id, 'it is ' || s.state || ', but on the agenda as ' || a.status AS finding
FROM steps_agenda a JOIN steps s ON s.id = a.step_id
WHERE a."group" = :group
  AND NOT CASE a.status WHEN 'dispatched' THEN s.state = 'Dispatched' WHEN 'running' THEN s.lease_worker IS NOT NULL
                       ELSE s.state = 'Pending' END
UNION
SELECT s.id, 'it is ' || s.state || ', but not on the agenda' FROM steps s
WHERE s."group" = :group AND (s.state = 'Dispatched' OR s.lease_worker IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = s.id)
UNION
SELECT a.step_id, 'it waits for other steps, but is on the agenda as ' || a.status
FROM steps_agenda a JOIN step_readiness r ON r.step_id = a.step_id
WHERE a."group" = :group AND a.status IN ('open', 'delayed', 'undecided')
  AND NOT (@ready(r))
UNION
-- An open gate stays open while its workflow is paused: it can be answered, and it expires.
SELECT a.step_id, 'it waits for other steps, but is an open gate' FROM steps_agenda a JOIN step_readiness r ON r.step_id = a.step_id
WHERE a."group" = :group AND a.status = 'gate' AND NOT (r.parent_ready AND r.order_met AND r.dependencies_met);

-- name: wrong_block_entries(group)
SELECT u.step_id AS id, 'it is ' || s.state || ', but its block entry is outdated' AS finding
FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE s."group" = :group
  AND (s.state IN @concluded AND s.lease_worker IS NULL
       OR u.ended <> (s.state NOT IN @unfinished AND s.lease_worker IS NULL))
UNION
SELECT u.step_id, 'its block entry has the wrong block, type, index or workflow' FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE s."group" = :group
  AND (u.block_uuid <> s.block_uuid OR u.type <> s.type OR u."index" <> s."index"
       OR u.workflow_id @sqlite(IS NOT)@postgres(IS DISTINCT FROM) CASE WHEN s.belongs_to = 'workflow' THEN s.workflow_id END)
UNION
SELECT s.id, 'it is ' || s.state || ', but has no block entry' FROM steps s
WHERE s."group" = :group AND s.placed AND (s.parent_step_id IS NOT NULL OR s.block_uuid <> s.uuid)
  AND (s.state NOT IN @concluded OR s.lease_worker IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u WHERE u.step_id = s.id);

-- name: wrong_workflow_states()
-- Declared workflows whose state is not the one that follows from their steps; each is named by its first step. Not while
-- marks of the group wait for a tick: plain SQL may have ended a step.
SELECT f.id, f.workflow_id, s."group", 'its workflow ' || f.workflow_id || ' is ' || f.state || ', but its steps say ' || f.outcome AS finding
FROM (SELECT w.id AS workflow_id, w.state, o.outcome,
             (SELECT min(s.id) FROM steps s WHERE s.workflow_id = w.id AND s.workflow_id <> s.uuid) AS id
      FROM steps_workflows w JOIN steps_workflow_outcomes o ON o.workflow_id = w.id
      WHERE @outdated(w, o)) AS f
JOIN steps s ON s.id = f.id
WHERE NOT EXISTS (SELECT 1 FROM steps_marks m WHERE m."group" = s."group");

-- name: repair_block_entry(id)!
INSERT INTO @unconcluded
SELECT @unconcluded_entry(steps)
FROM steps WHERE id = :id AND (state NOT IN @concluded OR lease_worker IS NOT NULL)
ON CONFLICT (step_id) DO UPDATE SET block_uuid = excluded.block_uuid, type = excluded.type, "index" = excluded."index",
    ended = excluded.ended, workflow_id = excluded.workflow_id;

-- name: delete_block_entry(id)!
DELETE FROM steps_unconcluded WHERE step_id = :id AND step_id @in(
    SELECT id FROM steps WHERE id = :id AND state IN @concluded AND lease_worker IS NULL);

-- name: delete_agenda_entry(id)!
DELETE FROM steps_agenda WHERE step_id = :id;

-- name: repair_agenda_entry(id)!
INSERT INTO @agenda
SELECT id, CASE state WHEN 'Pending' THEN @returned(steps) WHEN 'Dispatched' THEN 'dispatched' ELSE 'running' END,
       @agenda_entry(steps) AND state = 'Pending'
FROM steps WHERE id = :id AND (state IN ('Pending', 'Dispatched') OR lease_worker IS NOT NULL)
ON CONFLICT (step_id) DO UPDATE SET status = excluded.status;

-- name: mark_again(id)!
INSERT INTO steps_marks ("group", step_id) SELECT "group", id FROM steps WHERE id = :id;

-- name: has_marks(group)
SELECT 1 AS found FROM steps_marks WHERE "group" = :group LIMIT 1;

-- name: use_one_snapshot()!
-- A mark is committed with its change, so within one snapshot a change without a mark is a real error. (A SQLite
-- transaction always reads from one snapshot.)
@sqlite(SELECT 1)@postgres(SET TRANSACTION ISOLATION LEVEL REPEATABLE READ);

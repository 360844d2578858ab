-- Operator actions on steps and workflows; each records who did it and why.

-- macro: completable
-- What a step must be to be completed by hand, beside its state: a gate is open (before, an answer would be too
-- early), and the children of a step that never ran have not run either: below a Completed parent they never would.
(kind <> 'gate' OR steps.state NOT IN ('Pending', 'NotRunnable')
     OR EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = steps.id AND a.status = 'gate'))
  AND NOT EXISTS (SELECT 1 FROM steps_unconcluded u
                  WHERE u.block_uuid = steps.child_block_uuid
                    AND (NOT u.ended OR steps.state = 'NotRunnable' AND u.type = 'default'))

-- name: cancel_by_hand(id, actor, reason, now)
UPDATE steps SET @to('Cancelled'), reason = :reason, completed_at = :now
WHERE id = :id AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
@changes;

-- name: fail_by_hand(id, actor, reason, now)
UPDATE steps SET @to('Failed'), reason = :reason, last_error = NULL, completed_at = :now
WHERE id = :id AND state IN @unfinished
@changes;

-- name: stop_by_hand(id, actor, reason, now)
UPDATE steps SET @to('Stopped'), reason = :reason, last_error = NULL, completed_at = :now
WHERE id = :id AND state = 'Running'
@changes;

-- name: skip_by_hand(id, actor, reason, now)
UPDATE steps SET @to('Skipped'), reason = :reason, completed_at = :now
WHERE id = :id AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable', 'Failed', 'Stopped', 'Cancelled')
@changes;

-- name: complete_by_hand(id, actor, reason, response, now)
UPDATE steps SET @to('Completed'), reason = :reason, response = :response,
    own_code_done_at = coalesce(own_code_done_at, :now), completed_at = :now
WHERE id = :id AND state IN ('Pending', 'NotRunnable', 'Failed', 'Stopped', 'Cancelled')
  AND @completable
@changes;

-- name: completable(ids)
SELECT id FROM steps
WHERE id @in(:ids bigint) AND state IN ('Pending', 'NotRunnable', 'Failed', 'Stopped', 'Cancelled') AND @completable;

-- name: has_open_children(id)
SELECT EXISTS (SELECT 1 FROM steps s JOIN steps_unconcluded u ON u.block_uuid = s.child_block_uuid WHERE s.id = :id);

-- name: answer_gate(id, response, actor, reason, now)
-- The answer to an open gate.
UPDATE steps SET @to('Completed'), reason = :reason, response = :response, own_code_done_at = :now, completed_at = :now
WHERE id = :id AND kind = 'gate' AND state = 'Pending'
  AND EXISTS (SELECT 1 FROM steps_agenda a WHERE a.step_id = steps.id AND a.status = 'gate')
@changes;

-- name: make_dormant_again(id, actor, now)
-- A handler that was revived with its parent waits for a failure again.
UPDATE steps SET @to('NotRunnable'), reason = 'dormant'
WHERE id = :id AND state = 'Pending' AND type = 'resolve-exception'
@changes;

-- name: pause_workflow(workflow, actor, reason, now)!
INSERT INTO steps_paused_workflows (workflow_id, paused_at, paused_by, reason) VALUES (:workflow, :now, :actor, :reason)
ON CONFLICT DO NOTHING;

-- name: resume_workflow(workflow)!
DELETE FROM steps_paused_workflows WHERE workflow_id = :workflow;

-- name: remove_workflow_from_agenda(workflow)!
-- Paused: its Pending steps leave the agenda in the same transaction. What is still to be checked may stand behind a
-- failure: the next tick decides about it, and opens nothing of it.
DELETE FROM steps_agenda
WHERE status IN ('open', 'delayed', 'undecided')
  AND step_id @in(SELECT id FROM steps
                  WHERE uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid);

-- name: mark_workflow(workflow)!
-- Resumed: the next tick checks all its Pending steps.
INSERT INTO steps_marks ("group", step_id)
SELECT "group", id FROM steps
WHERE (uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid) AND state = 'Pending' AND placed;

-- name: revivable_children(ids)
-- Children that are revived with these steps: ended by a cascade, or failed under a parent whose own code was done, or
-- NotRunnable with nothing in the way any more: what failed before them was retried or concluded while an ancestor had
-- ended for a reason of its own, and below such a one nothing is revived.
SELECT c.id
FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid JOIN steps c ON c.id = u.step_id
WHERE p.id @in(:ids bigint)
  AND (c.state IN ('Failed', 'Cancelled', 'NotRunnable')
       AND c.reason IN ('parent_failed', 'parent_cancelled', 'parent_not_runnable')
       OR p.own_code_done_at IS NOT NULL AND c.type = 'default' AND c.state IN @failed
       OR c.state = 'NotRunnable' AND c.reason = 'predecessor_failed'
          AND NOT (SELECT r.unsatisfiable FROM step_readiness r WHERE r.step_id = c.id));

-- name: revivable_successors(ids)
SELECT s.id, s.parent_step_id
FROM steps p
JOIN steps_unconcluded u ON u.block_uuid = p.block_uuid AND u.type = p.type AND u."index" > p."index"
JOIN steps s ON s.id = u.step_id AND s.state = 'NotRunnable' AND s.reason = 'predecessor_failed'
WHERE p.id @in(:ids bigint)
UNION
SELECT s.id, s.parent_step_id
FROM step_dependencies e JOIN steps s ON s.id = e.step_id AND s.state = 'NotRunnable' AND s.reason = 'predecessor_failed'
WHERE e.depends_on_id @in(:ids bigint);

-- name: lock_for_revival(ids)
SELECT id, label, action, state, reason, type, attempts, lease_worker, parent_step_id, own_code_done_at, has_children,
       child_block_uuid, kind, template, element
FROM steps WHERE id @in(:ids bigint) ORDER BY id @postgres(FOR NO KEY UPDATE);

-- name: handlers_that_ran(ids)
-- The exception handlers of the blocks of these steps, and of their child blocks, that are not dormant any more: a handler
-- is promoted once.
SELECT h.id
FROM steps p JOIN steps h ON h.block_uuid IN (p.block_uuid, p.child_block_uuid) AND h.block_uuid <> h.uuid
WHERE p.id @in(:ids bigint) AND h.type = 'resolve-exception' AND h.attempts > 0
  AND h.state IN ('Completed', 'Skipped', 'Failed', 'Stopped', 'Cancelled')
UNION
SELECT h.id
FROM steps p JOIN steps h ON h.uuid IN (p.block_uuid, p.child_block_uuid) AND h.block_uuid = h.uuid
WHERE p.id @in(:ids bigint) AND h.type = 'resolve-exception' AND h.attempts > 0
  AND h.state IN ('Completed', 'Skipped', 'Failed', 'Stopped', 'Cancelled')
ORDER BY 1;

-- name: members_to_skip(id)
-- The descendants that the next tick skips with this step.
WITH RECURSIVE blocks (child_block_uuid) AS (
    SELECT p.child_block_uuid FROM steps p WHERE p.id = :id AND p.has_children
    UNION
    SELECT c.child_block_uuid FROM blocks b LEFT JOIN steps c ON c.block_uuid = b.child_block_uuid AND c.has_children
)
SELECT u.step_id AS id FROM steps_unconcluded u
WHERE u.block_uuid @in(SELECT child_block_uuid FROM blocks)
  AND (SELECT s.state FROM steps s WHERE s.id = u.step_id) IN ('Pending', 'Dispatched', 'Running', 'NotRunnable');

-- name: revive(ids, actor, reason, keep_plan, now)
-- A step that was never claimed keeps the time for which it was planned, if that lies ahead (with `keep_plan`). After a
-- claim, the plan is over, and a later time is a delay that a run asked for.
UPDATE steps SET
    @to(CASE WHEN own_code_done_at IS NOT NULL AND state <> 'NotRunnable' THEN 'Running' ELSE 'Pending' END),
    reason = :reason, attempts = 0, retries = 0, not_completed = 0, rescues = 0, begun = true, double_checks = 0,
    dispatch_after = CASE WHEN CAST(:keep_plan AS boolean) AND lease_token = 0 AND dispatch_after > :now THEN dispatch_after END,
    is_throttled = false, started_at = NULL, completed_at = NULL, duration = NULL, error_message = NULL,
    last_error = NULL, error_stack_trace = NULL, fingerprint = NULL
WHERE id @in(:ids bigint) AND state IN @troubled
@changes;

-- name: recheck_dependents(ids)!
-- They are on the agenda because these steps had ended. The next tick checks whether their trigger rule is still met. An
-- open gate is checked here: it stays open until it expires, or it is closed at once and takes no answer.
UPDATE steps_agenda SET status = 'unchecked', key_blocked = concurrency_key IS NOT NULL,
    due_at = CASE WHEN status = 'gate' THEN NULL ELSE due_at END
WHERE (status IN ('open', 'delayed', 'undecided')
       OR status = 'gate' AND NOT (SELECT r.dependencies_met FROM step_readiness r WHERE r.step_id = steps_agenda.step_id))
  AND step_id @in(SELECT step_id FROM step_dependencies WHERE depends_on_id @in(:ids bigint));

-- name: tally_reset(id)!
-- Its counter, if it is throttled: `reset_attempts` is no transition, and has no effects.
INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, number)
SELECT CASE WHEN t.before THEN state END, CASE WHEN NOT t.before THEN state END, action, queue, "group", hostname,
       parent_step_id IS NOT NULL, t.before, 1
FROM steps CROSS JOIN (SELECT true AS before UNION ALL SELECT false) AS t
WHERE id = :id AND state = 'Pending' AND is_throttled;

-- name: reset_attempts(id, now)!
-- A step that was never claimed keeps the time for which it was planned; a later time of any other is a delay after an attempt.
-- No row is changed if there is nothing to reset.
UPDATE steps SET attempts = 0, retries = 0, not_completed = 0, rescues = 0, double_checks = 0, is_throttled = false,
    dispatch_after = CASE WHEN lease_token = 0 AND dispatch_after > :now THEN dispatch_after END, changed_from = NULL
WHERE id = :id AND state = 'Pending'
  AND (attempts <> 0 OR retries <> 0 OR not_completed <> 0 OR rescues <> 0 OR double_checks <> 0 OR is_throttled
       OR dispatch_after <= :now OR dispatch_after IS NOT NULL AND lease_token <> 0);

-- name: recheck(id)!
UPDATE steps_agenda SET status = 'unchecked', key_blocked = concurrency_key IS NOT NULL,
    due_at = (SELECT s.dispatch_after FROM steps s WHERE s.id = steps_agenda.step_id)
WHERE step_id = :id AND status IN ('delayed', 'exhausted');

-- name: lock_groups_of_steps(ids)
SELECT d."group" FROM steps_dispatcher d
WHERE d."group" @in(SELECT "group" FROM steps WHERE id @in(:ids bigint)) ORDER BY d."group" @postgres(FOR UPDATE);

-- name: lock_group_of(id)
-- Blocks ticks of the step's group until this transaction ends: each of their transactions locks the same row first
-- (`fence`). So no phase reads the state before an operator's action and writes after it.
SELECT d."group" FROM steps s JOIN steps_dispatcher d ON d."group" = s."group" WHERE s.id = :id @postgres(FOR UPDATE OF d);

-- name: lock_groups_of_workflow(workflow)
SELECT d."group" FROM steps_dispatcher d
WHERE d."group" @in(SELECT "group" FROM steps WHERE uuid = :workflow
                    UNION ALL
                    SELECT "group" FROM steps WHERE workflow_id = :workflow AND workflow_id <> uuid)
ORDER BY d."group" @postgres(FOR UPDATE);

-- name: cancel_workflow_steps(workflow, actor, now)
UPDATE steps SET @to('Cancelled'), reason = 'workflow_cancelled', completed_at = :now
WHERE workflow_id = :workflow AND workflow_id <> uuid AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
@changes;

-- name: cancellable_of_workflow(workflow)
SELECT id FROM steps
WHERE workflow_id = :workflow AND workflow_id <> uuid AND state IN ('Pending', 'Dispatched', 'Running', 'NotRunnable')
ORDER BY id;

-- name: record_cancellation(workflow, actor, reason, now)!
UPDATE steps_workflows SET cancelled_at = :now, actor = :actor, reason = :reason WHERE id = :workflow;

-- name: resolve_workflow(ids, actor, reason, now)
UPDATE steps_workflows SET state = 'resolved_manually', actor = :actor, reason = :reason, updated_at = :now
WHERE id @in(:ids uuid) AND state IN ('error', 'cancelled')
@workflow_changes;

-- name: unconcluded_of_workflow(workflow)
-- Every step that ended without concluding, but for dormant handlers, and the state of its parent.
SELECT s.id, s.parent_step_id, p.state AS parent_state
FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id LEFT JOIN steps p ON p.id = s.parent_step_id
WHERE u.workflow_id = :workflow AND s.state IN @troubled
  AND coalesce(s.reason, '') <> 'dormant'
ORDER BY s.id;

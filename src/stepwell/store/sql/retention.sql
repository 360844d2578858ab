-- Retention: settled workflows are deleted or archived, whole and in one transaction.

-- Finding them -----------------------------------------------------------------------------------------

-- name: steps_after(after, limit)
-- A page of all steps in the order of their creation.
SELECT id, coalesce(workflow_id, uuid) AS workflow_id, state, lease_worker IS NOT NULL AS leased,
       workflow_id = uuid AND NOT has_children AND NOT has_dependents AS alone, created_at, updated_at
FROM steps WHERE id > :after ORDER BY id LIMIT :limit;

-- name: lock_workflows(workflows)
-- Declared ones. What somebody else works on is left for the next pass, so retention never waits for a lock.
SELECT id FROM steps_workflows WHERE id @in(:workflows uuid) ORDER BY id @postgres(FOR UPDATE SKIP LOCKED);

-- name: declared_workflows(workflows)
SELECT id, state, settled_at, created_at, identity IS NOT NULL AS has_identity FROM steps_workflows
WHERE id @in(:workflows uuid);

-- name: lock_members(workflows)
SELECT id FROM steps WHERE uuid @in(:workflows uuid) OR workflow_id @in(:workflows uuid) AND workflow_id <> uuid
ORDER BY id @postgres(FOR UPDATE SKIP LOCKED);

-- name: members(workflows, before, keys_before)
-- Every step of these workflows, and whether it may go. It stays while it is the live step of a task of a main process, the
-- parent of a row of plain SQL that has not been placed, or a handler that the next tick promotes.
SELECT s.id, coalesce(s.workflow_id, s.uuid) AS workflow_id,
       s.state NOT IN @unfinished AND s.lease_worker IS NULL AND s.updated_at < :before
       AND NOT EXISTS (SELECT 1 FROM steps_tasks t WHERE t.step_id = s.id)
       AND NOT EXISTS (SELECT 1 FROM steps c WHERE c.parent_step_id = s.id
                       AND coalesce(c.workflow_id, c.uuid) <> coalesce(s.workflow_id, s.uuid))
       AND NOT (s.type = 'resolve-exception' AND s.parent_step_id IS NULL AND coalesce(s.reason, '') = 'dormant'
                AND EXISTS (SELECT 1 FROM steps_unconcluded u JOIN steps f ON f.id = u.step_id
                            WHERE u.block_uuid = s.block_uuid AND u.type = 'default' AND u.ended
                              AND f.state IN @failed)) AS settled,
       s.idempotency_key IS NOT NULL AND s.created_at >= :keys_before AS promised
FROM steps s
WHERE s.uuid @in(:workflows uuid) OR s.workflow_id @in(:workflows uuid) AND s.workflow_id <> s.uuid
ORDER BY s.id;

-- name: marked(ids)
-- A tick has not decided yet what follows from these. There are few marks, and none of old steps while a dispatcher runs.
SELECT DISTINCT step_id FROM steps_marks WHERE step_id @in(:ids bigint);

-- Removing them: `remove_workflows` calls all of these ---------------------------------------------------

-- name: delete_history(ids)!
DELETE FROM step_transitions WHERE step_id @in(:ids bigint);

-- name: delete_logs(ids)!
DELETE FROM step_logs WHERE step_id @in(:ids bigint);

-- name: delete_dependencies(ids)!
DELETE FROM step_dependencies WHERE step_id @in(:ids bigint);

-- name: delete_answers(ids)!
DELETE FROM step_answers WHERE step_id @in(:ids bigint);

-- name: delete_unconcluded(ids)!
DELETE FROM steps_unconcluded WHERE step_id @in(:ids bigint);

-- name: delete_items_of_steps(ids)!
DELETE FROM steps_operation_items WHERE step_id @in(:ids bigint);

-- name: delete_items_of_workflows(workflows)!
DELETE FROM steps_operation_items WHERE workflow_id @in(:workflows uuid);

-- name: delete_pauses(workflows)!
DELETE FROM steps_paused_workflows WHERE workflow_id @in(:workflows uuid);

-- name: delete_workflow_history(workflows)!
DELETE FROM steps_workflow_transitions WHERE workflow_id @in(:workflows uuid);

-- name: delete_workflows(workflows)!
DELETE FROM steps_workflows WHERE id @in(:workflows uuid);

-- name: delete_steps(ids)!
DELETE FROM steps WHERE id @in(:ids bigint);

-- What else grows --------------------------------------------------------------------------------------

-- name: delete_operations(before, limit)!
-- Operations that are about nothing that is left.
DELETE FROM steps_operations
WHERE id @in(SELECT o.id FROM steps_operations o
             WHERE o.state = 'done' AND o.ended_at < @time(:before)
               AND NOT EXISTS (SELECT 1 FROM steps_operation_items i WHERE i.operation_id = o.id)
             ORDER BY o.id LIMIT :limit);

-- name: crons_with_leftovers(after, before)
-- Crons with executions or a part of the ledger that is old enough to go.
SELECT id FROM cron_jobs c
WHERE id > :after
  AND (EXISTS (SELECT 1 FROM steps_schedule_slots s WHERE s.job_id = c.id AND s.slot < :before)
       OR EXISTS (SELECT 1 FROM job_executions e WHERE e.job_id = c.id AND e.scheduled_time < :before))
ORDER BY id LIMIT 100;

-- name: lock_cron(id)
SELECT id FROM cron_jobs WHERE id = :id @postgres(FOR UPDATE SKIP LOCKED);

-- name: delete_executions(job_id, before, limit)!
-- Executions that have ended and whose step or workflow is gone.
DELETE FROM job_executions
WHERE id @in(SELECT e.id FROM job_executions e
             WHERE e.job_id = :job_id AND e.scheduled_time < :before AND e.status NOT IN ('PENDING', 'RUNNING')
               AND NOT EXISTS (SELECT 1 FROM steps s WHERE s.id = e.step_id)
               AND NOT EXISTS (SELECT 1 FROM steps_workflows w WHERE w.id = e.workflow_id)
             ORDER BY e.scheduled_time LIMIT :limit);

-- name: delete_slots(job_id, before, limit)
-- The oldest first. A gap that reaches beyond the moment stays, and so does the slot of an execution that is still there.
DELETE FROM steps_schedule_slots
WHERE id @in(SELECT s.id FROM steps_schedule_slots s
             WHERE s.job_id = :job_id AND s.until_slot < :before AND s.slot < :before
               AND NOT EXISTS (SELECT 1 FROM job_executions e WHERE e.id = s.execution_id)
             ORDER BY s.slot LIMIT :limit)
RETURNING until_slot;

-- name: ledger_begins_after(job_id, slot)!
UPDATE cron_jobs SET ledger_from = :slot WHERE id = :job_id AND ledger_from < :slot;

-- The archive ------------------------------------------------------------------------------------------

-- name: archived_step(id, uuid)
SELECT * FROM steps_archive WHERE id = :id
UNION ALL
SELECT * FROM steps_archive WHERE uuid = :uuid;

-- name: archived_with(id)
SELECT archived_at, history, logs, depends_on, answer, operations FROM steps_archive WHERE id = :id;

-- name: archived_workflow(workflow)
-- When a workflow was archived, declared or not.
SELECT archived_at FROM steps_archived_workflows WHERE id = :workflow
UNION ALL
SELECT archived_at FROM steps_archive WHERE uuid = :workflow
UNION ALL
SELECT archived_at FROM (SELECT archived_at FROM steps_archive WHERE workflow_id = :workflow AND workflow_id <> uuid LIMIT 1) AS member;

-- name: archived_before(before, limit)
-- Workflows of the archive, oldest first. All steps of one were archived at the same moment.
SELECT DISTINCT workflow_id FROM (
    SELECT coalesce(workflow_id, uuid) AS workflow_id FROM steps_archive
    WHERE archived_at < :before AND archived_at > @sqlite('')@postgres('-infinity') ORDER BY archived_at, id LIMIT :limit) AS oldest;

-- name: archived_members(workflows)
SELECT id FROM steps_archive
WHERE id @in(SELECT id FROM steps_archive WHERE uuid @in(:workflows uuid)
             UNION ALL
             SELECT id FROM steps_archive WHERE workflow_id @in(:workflows uuid) AND workflow_id <> uuid)
ORDER BY id @postgres(FOR UPDATE);

-- name: delete_archived_steps(ids)!
DELETE FROM steps_archive WHERE id @in(:ids bigint);

-- name: delete_archived_workflows(workflows)!
DELETE FROM steps_archived_workflows WHERE id @in(:workflows uuid);

-- name: delete_old_archived_workflows(before)!
-- Declared workflows without a step.
DELETE FROM steps_archived_workflows
WHERE id @in(SELECT w.id FROM steps_archived_workflows w
             WHERE w.archived_at < :before
               AND (SELECT s.id FROM steps_archive s WHERE s.workflow_id = w.id AND s.workflow_id <> s.uuid LIMIT 1) IS NULL
             ORDER BY w.archived_at LIMIT 1000);

-- The pass ---------------------------------------------------------------------------------------------

-- name: recorded()
SELECT * FROM steps_retention;

-- name: record_settings(keep_days, archives, archive_days, now)!
UPDATE steps_retention SET keep_days = :keep_days, archives = :archives, archive_days = :archive_days, recorded_at = :now;

-- name: ensure_row()!
-- Somebody may have emptied all tables.
INSERT INTO steps_retention (only_row) VALUES (1) ON CONFLICT DO NOTHING;

-- name: take_pass(holder, until, now)!
UPDATE steps_retention SET holder = :holder, held_until = :until
WHERE holder IS NULL OR holder = :holder OR held_until <= :now;

-- name: begin_pass(holder, cutoff, now)!
UPDATE steps_retention SET cutoff = :cutoff, position = 0, started_at = :now, workflow_count = 0, step_count = 0
WHERE holder = :holder;

-- name: advance(holder, until, position)!
-- Fails if another process has taken over.
UPDATE steps_retention SET position = :position, held_until = :until WHERE holder = :holder;

-- name: count_removed(workflow_count, step_count, deleted_to)!
UPDATE steps_retention SET workflow_count = workflow_count + :workflow_count, step_count = step_count + :step_count,
    deleted_to = CASE WHEN deleted_to < :deleted_to THEN :deleted_to ELSE deleted_to END;

-- name: end_pass(holder, now)!
UPDATE steps_retention SET complete_until = cutoff, cutoff = NULL, position = NULL, ended_at = :now, holder = NULL,
    held_until = NULL
WHERE holder = :holder;

-- name: release(holder)!
UPDATE steps_retention SET holder = NULL, held_until = NULL WHERE holder = :holder;

-- name: deleted_to()
SELECT coalesce(max(deleted_to), 0) AS deleted_to FROM steps_retention;

-- name: step_from(id)
-- The step with this id or the next one.
SELECT id, created_at FROM steps WHERE id >= :id ORDER BY id LIMIT 1;

-- name: newest_id()
-- The condition makes it a seek.
SELECT id FROM steps WHERE id <= 9223372036854775807 ORDER BY id DESC LIMIT 1;

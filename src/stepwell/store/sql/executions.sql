-- Executions of cron jobs: their status follows their steps and workflows.

-- name: follow_steps(ids)
-- In the transaction that changed the steps. A deadline is for the first begin, not for a retry by hand.
-- (SQLite returns no columns of the joined table.)
UPDATE job_executions SET
    status = CASE s.state WHEN 'Pending' THEN 'PENDING' WHEN 'Dispatched' THEN 'PENDING' WHEN 'Running' THEN 'RUNNING'
                          WHEN 'Completed' THEN 'SUCCESS' WHEN 'Skipped' THEN 'SUCCESS'
                          ELSE CASE WHEN s.reason = 'timed_out' THEN 'TIMEOUT' ELSE 'FAILED' END END,
    started_at = CASE WHEN s.attempts > 0 THEN coalesce(job_executions.started_at, s.started_at) END,
    finished_at = CASE WHEN s.state NOT IN @unfinished THEN s.completed_at END,
    start_by = CASE WHEN s.state IN ('Pending', 'Dispatched', 'Skipped') AND s.attempts = 0 THEN job_executions.start_by END,
    retry_count = s.retries,
    error_message = CASE WHEN s.state = 'Completed' OR s.state = 'Skipped' AND s.attempts > 0 THEN s.last_error
                         WHEN s.state IN @unfinished THEN CASE WHEN s.retries > 0 THEN s.last_error END
                         ELSE coalesce(s.last_error, s.error_message, s.reason, s.state) END,
    result = CASE WHEN s.state = 'Completed' THEN CAST(s.response AS text) END
FROM steps s
WHERE s.id @in(:ids bigint) AND job_executions.step_id = s.id
RETURNING job_executions.id, job_id, slot, status, job_executions.started_at, job_executions.error_message;

-- name: follow_workflows(ids)
UPDATE job_executions SET
    status = CASE w.state WHEN 'pending' THEN 'PENDING' WHEN 'in_progress' THEN 'RUNNING'
                          WHEN 'complete' THEN 'SUCCESS' WHEN 'resolved_manually' THEN 'SUCCESS' ELSE 'FAILED' END,
    started_at = CASE w.state WHEN 'pending' THEN NULL ELSE coalesce(job_executions.started_at, w.updated_at) END,
    finished_at = w.settled_at,
    error_message = CASE WHEN w.state IN ('error', 'cancelled') THEN coalesce(w.reason, 'the workflow ended as ' || w.state) END
FROM steps_workflows w
WHERE w.id @in(:ids uuid) AND job_executions.workflow_id = w.id
RETURNING job_executions.id, job_id, slot, status, job_executions.started_at, job_executions.error_message;

-- name: record_success(job_id, slot)!
UPDATE cron_jobs SET last_success = :slot WHERE id = :job_id AND (last_success IS NULL OR last_success < :slot);

-- name: slot_was_skipped(execution_id, reason, detail)!
UPDATE steps_schedule_slots SET outcome = 'skipped', reason = :reason, detail = :detail
WHERE execution_id = :execution_id AND outcome = 'fired';

-- name: late_executions(now, limit)
SELECT id, step_id, start_by FROM job_executions
WHERE start_by <= :now AND start_by IS NOT NULL AND status = 'PENDING' AND started_at IS NULL
ORDER BY start_by LIMIT :limit;

-- name: skip_late(id, actor, reason, now)
UPDATE steps SET @to('Skipped'), reason = :reason, completed_at = :now
WHERE id = :id AND state IN ('Pending', 'Dispatched') AND attempts = 0
@changes;

-- name: execution(id)
SELECT * FROM job_executions WHERE id = :id;

-- name: newest_executions(job_id, status, before, limit)
SELECT * FROM job_executions
WHERE job_id = :job_id AND (CAST(:status AS text) IS NULL OR status = CAST(:status AS text)) AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: live_executions_of(job_id)
SELECT * FROM job_executions WHERE job_id = :job_id AND status IN ('PENDING', 'RUNNING') ORDER BY id;

-- name: executions_of_slots(job_id, first, last)
-- Without those that were skipped before they began.
SELECT id, slot, kind, status FROM job_executions
WHERE job_id = :job_id AND slot >= :first AND slot <= :last
  AND NOT (status = 'SUCCESS' AND started_at IS NULL AND error_message IS NOT NULL)
ORDER BY slot, id;

-- name: execution_of_step(step_id, workflow_id)
-- What a running step can ask about its schedule.
SELECT e.id, e.job_id, c.name, e.kind, e.slot, e.scheduled_time, c.last_success
FROM job_executions e JOIN cron_jobs c ON c.id = e.job_id
WHERE e.step_id = :step_id OR e.workflow_id = :workflow_id
LIMIT 1;

-- name: success_before(job_id, slot)
SELECT max(slot) FROM job_executions WHERE job_id = :job_id AND slot < :slot AND status = 'SUCCESS'
  AND (started_at IS NOT NULL OR error_message IS NULL); -- not skipped before it began

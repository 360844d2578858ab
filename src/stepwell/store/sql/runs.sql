-- A worker's writes for a step that it runs. Each takes effect only while the step is Running under the token of its claim.
-- Only `finish` clears `stage`: a write that passes no stage must not make compute run again.

-- macro: holder
-- Only the run that holds the lease may write.
id = :id AND state = 'Running' AND lease_token = :token AND lease_worker IS NOT NULL

-- macro: release
lease_worker = NULL, lease_deadline = NULL

-- macro: survived
-- The run has ended, and its process is alive: deaths are counted in a row.
rescues = 0, begun = true, is_throttled = false

-- macro: has_begun
-- Whether the run has begun: the caller or the row knows.
(begun OR CAST(:began AS boolean))

-- macro: spends_attempt
-- A cut at the timeout, of the execution of a cron job.
(CAST(:cut AS boolean) AND belongs_to IS NOT NULL AND belongs_to = 'schedule')

-- macro: own_code_done
-- Completed, or Running until the children have concluded.
reason = CASE WHEN has_children THEN 'waiting_for_children' END,
    completed_at = CASE WHEN has_children THEN completed_at ELSE :now END,
    compute_done_at = coalesce(compute_done_at, :now), own_code_done_at = :now, stage = NULL,
    rescues = 0, begun = true, is_throttled = false,
    lease_worker = NULL, lease_deadline = NULL

-- name: workflows_of_ended(ids)
SELECT DISTINCT workflow_id FROM steps WHERE id @in(:ids bigint) AND state NOT IN @unfinished;

-- name: finish(id, token, response, error, stack, duration, actor, now)
-- Own code done: Completed, or Running until the children have concluded. Without a response, the recorded one is kept.
UPDATE steps SET
    @to(CASE WHEN has_children THEN 'Running' ELSE 'Completed' END), @own_code_done,
    response = coalesce(:response, response), error_message = coalesce(error_message, :error),
    error_stack_trace = coalesce(error_stack_trace, :stack), last_error = :error, duration = :duration
WHERE @holder
@changes;

-- name: retry_later(id, token, dispatch_after, error, stack, stage, actor, now)
UPDATE steps SET @to('Pending'), reason = 'retry', retries = retries + 1, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), error_message = coalesce(error_message, :error),
    last_error = :error, error_stack_trace = coalesce(error_stack_trace, :stack), @survived, @release
WHERE @holder
@changes;

-- name: throttle(id, token, dispatch_after, stage, actor, now)
UPDATE steps SET @to('Pending'), reason = 'throttled', is_throttled = true, was_throttled = true, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), last_error = NULL, rescues = 0, begun = true, @release
WHERE @holder
@changes;

-- name: check_again(id, token, dispatch_after, stage, actor, now)
UPDATE steps SET @to('Pending'), reason = 'double_check', double_checks = double_checks + 1, not_completed = 0,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), last_error = NULL, @survived, @release
WHERE @holder
@changes;

-- name: not_completed(id, token, dispatch_after, limit, cut, error, stage, actor, now)
-- The run ended without completing the step: Pending again after its cooldown, at most `limit` times in a row.
-- For the execution of a cron job, a cut at the timeout is an attempt: it spends a retry, and the last one fails the step.
UPDATE steps SET
    @to(CASE WHEN @spends_attempt THEN CASE WHEN retries >= max_retries THEN 'Failed' ELSE 'Pending' END
             WHEN not_completed >= :limit THEN 'Failed' ELSE 'Pending' END),
    reason = CASE WHEN @spends_attempt AND retries >= max_retries THEN 'timed_out' ELSE 'not_completed' END,
    retries = retries + CASE WHEN @spends_attempt AND retries < max_retries THEN 1 ELSE 0 END,
    not_completed = CASE WHEN @spends_attempt THEN 0 ELSE not_completed + 1 END,
    completed_at = CASE WHEN CASE WHEN @spends_attempt THEN retries >= max_retries ELSE not_completed >= :limit END THEN :now END,
    error_message = CASE WHEN not_completed >= :limit AND NOT @spends_attempt
                         THEN coalesce(error_message, :error, 'not completed after ' || (not_completed + 1) || ' runs')
                         ELSE coalesce(error_message, :error) END,
    last_error = :error, dispatch_after = :dispatch_after, stage = coalesce(:stage, stage), @survived, @release
WHERE @holder
@changes;

-- name: run_again(id, token, dispatch_after, actor, now)
-- The run was successful, and the step has to run again, from the start. Not with children: they would be created twice.
UPDATE steps SET @to('Pending'), reason = 'not_completed', retries = 0, not_completed = 0, double_checks = 0,
    dispatch_after = :dispatch_after, stage = NULL, compute_done_at = NULL, response = NULL, checkpoint = NULL,
    last_error = NULL, @survived, @release
WHERE @holder AND NOT has_children
@changes;

-- name: rescue(id, token, dispatch_after, limit, began, error, actor, now)
-- Its process died: Pending again. The death counts if the run had begun; after `limit` of them in a row the next one
-- fails the step, as poison.
UPDATE steps SET
    @to(CASE WHEN rescues >= :limit AND @has_begun THEN 'Failed' ELSE 'Pending' END),
    reason = CASE WHEN rescues >= :limit AND @has_begun THEN 'poison' ELSE 'rescued' END,
    completed_at = CASE WHEN rescues >= :limit AND @has_begun THEN :now END,
    rescues = rescues + CASE WHEN @has_begun THEN 1 ELSE 0 END, begun = @has_begun, is_throttled = false,
    error_message = coalesce(error_message, :error), last_error = :error, dispatch_after = :dispatch_after, @release
WHERE @holder
@changes;

-- name: fail(id, token, reason, error, stack, stage, duration, fingerprint, actor, now)
UPDATE steps SET @to('Failed'), reason = :reason, error_message = coalesce(error_message, :error), last_error = :error,
    error_stack_trace = coalesce(error_stack_trace, :stack), stage = coalesce(:stage, stage), duration = :duration,
    fingerprint = :fingerprint, completed_at = :now, @survived, @release
WHERE @holder
@changes;

-- name: stop(id, token, reason, duration, fingerprint, actor, now)
UPDATE steps SET @to('Stopped'), reason = :reason, last_error = NULL, duration = :duration, fingerprint = :fingerprint,
    completed_at = :now, @survived, @release
WHERE @holder
@changes;

-- name: skip(id, token, reason, duration, actor, now)
UPDATE steps SET @to('Skipped'), reason = :reason, duration = :duration, completed_at = :now, @survived, @release
WHERE @holder
@changes;

-- name: hand_back(id, token, dispatch_after, error, stage, actor, now)
-- Returned to Pending unfinished: the attempt does not count. A run that has begun has survived so far; one that was only
-- claimed ahead leaves everything as it was.
UPDATE steps SET @to('Pending'), reason = 'handed_back', attempts = attempts - 1, last_error = :error,
    dispatch_after = :dispatch_after, stage = coalesce(:stage, stage),
    rescues = CASE WHEN begun THEN 0 ELSE rescues END, begun = true, is_throttled = false, @release
WHERE @holder
@changes;

-- name: record_begun(ids, tokens)!
-- Runs that were claimed ahead of a free slot have begun.
UPDATE steps SET begun = true, changed_from = NULL
FROM @sqlite((SELECT i.value AS id, t.value AS token FROM json_each(:ids) i JOIN json_each(:tokens) t ON t.key = i.key))
     @postgres(unnest(CAST(:ids AS bigint[]), CAST(:tokens AS bigint[]))) AS run @postgres((id, token))
WHERE steps.id = run.id AND steps.lease_token = run.token AND state = 'Running' AND lease_worker IS NOT NULL AND NOT begun;

-- name: lock_lease(id, token)
-- Locks the row, so that the lease cannot be taken away before this transaction ends.
UPDATE steps SET lease_token = lease_token, changed_from = NULL
WHERE @holder
RETURNING id;

-- name: holds_lease(id, token)
SELECT id FROM steps WHERE @holder;

-- name: is_recorded(id, token)
-- Whether the run with this token has recorded the result of its compute.
SELECT id FROM steps
WHERE @holder AND stage IS NOT NULL;

-- name: record_compute(id, token, stage, response, now)!
-- Compute is done and never runs again: a later attempt starts at the stage after it.
UPDATE steps SET compute_done_at = coalesce(compute_done_at, :now), stage = :stage, response = :response,
    updated_at = @sqlite(max)@postgres(greatest)(updated_at, :now), changed_from = NULL
WHERE @holder;

-- name: save_checkpoint(id, token, data)!
UPDATE steps SET checkpoint = :data, changed_from = NULL
WHERE @holder;

-- name: record_progress(id, token, done, total)!
UPDATE steps SET progress_done = :done, progress_total = :total, changed_from = NULL
WHERE @holder;

-- name: release_lease(id, token, now)
-- The process of a step that was cancelled, skipped or failed from outside has ended.
UPDATE steps SET @release, updated_at = :now, changed_from = state
WHERE id = :id AND lease_token = :token AND lease_worker IS NOT NULL
  AND state NOT IN @unfinished
@changes;

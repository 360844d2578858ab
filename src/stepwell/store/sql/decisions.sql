-- Decisions about ready steps of workflows, before they can be claimed.

-- name: undecided_steps(group, limit)
SELECT s.id, s.workflow_id, s.template, s.kind, s.plan, s.undecided, s.trigger_rule, s.decision
FROM steps_agenda a JOIN steps s ON s.id = a.step_id AND s.state = 'Pending' AND s.belongs_to = 'workflow'
WHERE a.status = 'undecided' AND a."group" = :group
  AND (SELECT @ready(r) FROM step_readiness r WHERE r.step_id = a.step_id)
ORDER BY a.step_id LIMIT :limit;

-- name: withdraw_undecided(group)!
-- No longer ready: an upstream step was retried, or the workflow was paused. What ends next marks it again.
DELETE FROM steps_agenda
WHERE status = 'undecided' AND "group" = :group
  AND NOT (SELECT @ready(r) FROM step_readiness r WHERE r.step_id = steps_agenda.step_id);

-- name: skip_undecided(id, reason, message, decision, actor, now)
UPDATE steps SET @to('Skipped'), reason = :reason, error_message = :message, decision = :decision, undecided = NULL,
    completed_at = :now
WHERE id = :id AND state = 'Pending'
@changes;

-- name: record_decision(id, decision, dispatch_after)!
UPDATE steps SET undecided = NULL, decision = :decision, dispatch_after = :dispatch_after, changed_from = NULL
WHERE id = :id AND state = 'Pending';

-- name: open_decided(id, due_at)!
UPDATE steps_agenda SET status = CASE WHEN @time(:due_at) IS NULL THEN 'open' ELSE 'delayed' END, due_at = :due_at
WHERE step_id = :id AND status = 'undecided';

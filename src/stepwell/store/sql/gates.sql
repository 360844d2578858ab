-- Gates: opening, answers, expiry.

-- name: open_gate(id, due_at)!
UPDATE steps_agenda SET status = 'gate', due_at = :due_at WHERE step_id = :id AND status = 'undecided';

-- name: due_gates(group, now)
SELECT s.id, s.workflow_id, s.template, s.plan, s.decision, n.answer, n.answered_by, n.reason, n.answered_at
FROM steps_agenda a JOIN steps s ON s.id = a.step_id AND s.state = 'Pending' LEFT JOIN step_answers n ON n.step_id = s.id
WHERE a.status = 'gate' AND a."group" = :group AND a.due_at <= :now
ORDER BY a.step_id;

-- name: lock_gate(id)
-- An open gate, locked on the agenda, so that two answers wait for each other.
SELECT s.id, s.uuid, s.label, s.template, s.state, s.actor, s.completed_at, s.kind, s.plan, s.decision, s.workflow_id, a.status
FROM steps s LEFT JOIN steps_agenda a ON a.step_id = s.id
WHERE s.id = :id @postgres(FOR UPDATE OF s);

-- name: answer_of(id)
SELECT answer, answered_by, reason, answered_at FROM step_answers WHERE step_id = :id;

-- name: add_answer(id, answer, answered_by, reason, now)!
INSERT INTO step_answers (step_id, answer, answered_by, reason, answered_at)
VALUES (:id, :answer, :answered_by, :reason, :now);

-- name: delete_answer(id)!
DELETE FROM step_answers WHERE step_id = :id;

-- name: postpone_gate(id, due_at)!
UPDATE steps_agenda SET due_at = :due_at WHERE step_id = :id AND status = 'gate';

-- name: record_refusal(id, decision)!
UPDATE steps SET decision = :decision, changed_from = NULL WHERE id = :id AND state = 'Pending';

-- name: expire_gate(id, message, actor, now)
UPDATE steps SET @to('Failed'), reason = 'gate_expired', error_message = :message, last_error = :message, completed_at = :now
WHERE id = :id AND kind = 'gate' AND state = 'Pending'
@changes;

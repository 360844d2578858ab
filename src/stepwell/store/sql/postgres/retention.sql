-- name: archive_steps(ids, now)!
-- The columns of the archive are these six, then those of `steps`.
INSERT INTO steps_archive
SELECT CAST(:now AS timestamptz),
       (SELECT coalesce(json_agg(json_build_object('id', t.id, 'from', t.from_state, 'to', t.to_state, 'reason', t.reason,
                                                   'actor', t.actor, 'at', t.at, 'attempt', t.attempt, 'error', t.error) ORDER BY t.id), '[]')
        FROM step_transitions t WHERE t.step_id = s.id),
       (SELECT json_agg(json_build_object('id', l.id, 'attempt', l.attempt, 'at', l.at, 'level', l.level, 'message', l.message) ORDER BY l.id)
        FROM step_logs l WHERE l.step_id = s.id),
       (SELECT json_agg(e.depends_on_id ORDER BY e.depends_on_id) FROM step_dependencies e WHERE e.step_id = s.id),
       (SELECT json_build_object('answer', a.answer, 'answered_by', a.answered_by, 'reason', a.reason, 'answered_at', a.answered_at)
        FROM step_answers a WHERE a.step_id = s.id),
       (SELECT json_agg(json_build_object('id', o.id, 'kind', o.kind, 'actor', o.actor, 'reason', o.reason, 'at', i.at) ORDER BY i.id)
        FROM steps_operation_items i JOIN steps_operations o ON o.id = i.operation_id
        WHERE i.step_id = s.id AND i.outcome = 'done'),
       s.*
FROM steps s WHERE s.id @in(:ids bigint);

-- name: archive_workflows(workflows, now)!
INSERT INTO steps_archived_workflows
SELECT CAST(:now AS timestamptz),
       (SELECT coalesce(json_agg(json_build_object('id', t.id, 'from', t.from_state, 'to', t.to_state, 'reason', t.reason,
                                                   'actor', t.actor, 'at', t.at) ORDER BY t.id), '[]')
        FROM steps_workflow_transitions t WHERE t.workflow_id = w.id),
       (SELECT json_agg(json_build_object('id', o.id, 'kind', o.kind, 'actor', o.actor, 'reason', o.reason, 'at', i.at) ORDER BY i.id)
        FROM steps_operation_items i JOIN steps_operations o ON o.id = i.operation_id
        WHERE i.workflow_id = w.id AND i.outcome = 'done'),
       w.*
FROM steps_workflows w WHERE w.id @in(:workflows uuid);

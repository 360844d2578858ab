-- name: archive_steps(ids, now)!
-- The columns of the archive are these six, then those of `steps`.
INSERT INTO steps_archive
SELECT :now,
       (SELECT json_group_array(json_object('id', t.id, 'from', t.from_state, 'to', t.to_state, 'reason', t.reason,
                                            'actor', t.actor, 'at', t.at, 'attempt', t.attempt, 'error', t.error))
        FROM (SELECT * FROM step_transitions WHERE step_id = s.id ORDER BY id) AS t),
       nullif((SELECT json_group_array(json_object('id', l.id, 'attempt', l.attempt, 'at', l.at, 'level', l.level, 'message', l.message))
               FROM (SELECT * FROM step_logs WHERE step_id = s.id ORDER BY id) AS l), '[]'),
       nullif((SELECT json_group_array(e.depends_on_id)
               FROM (SELECT depends_on_id FROM step_dependencies WHERE step_id = s.id ORDER BY depends_on_id) AS e), '[]'),
       (SELECT json_object('answer', json(a.answer), 'answered_by', a.answered_by, 'reason', a.reason, 'answered_at', a.answered_at)
        FROM step_answers a WHERE a.step_id = s.id),
       nullif((SELECT json_group_array(json_object('id', o.id, 'kind', o.kind, 'actor', o.actor, 'reason', o.reason, 'at', o.at))
               FROM (SELECT o.id, o.kind, o.actor, o.reason, i.at FROM steps_operation_items i
                     JOIN steps_operations o ON o.id = i.operation_id
                     WHERE i.step_id = s.id AND i.outcome = 'done' ORDER BY i.id) AS o), '[]'),
       s.*
FROM steps s WHERE s.id @in(:ids bigint);

-- name: archive_workflows(workflows, now)!
INSERT INTO steps_archived_workflows
SELECT :now,
       (SELECT json_group_array(json_object('id', t.id, 'from', t.from_state, 'to', t.to_state, 'reason', t.reason, 'actor', t.actor, 'at', t.at))
        FROM (SELECT * FROM steps_workflow_transitions WHERE workflow_id = w.id ORDER BY id) AS t),
       nullif((SELECT json_group_array(json_object('id', o.id, 'kind', o.kind, 'actor', o.actor, 'reason', o.reason, 'at', o.at))
               FROM (SELECT o.id, o.kind, o.actor, o.reason, i.at FROM steps_operation_items i
                     JOIN steps_operations o ON o.id = i.operation_id
                     WHERE i.workflow_id = w.id AND i.outcome = 'done' ORDER BY i.id) AS o), '[]'),
       w.*
FROM steps_workflows w WHERE w.id @in(:workflows uuid);

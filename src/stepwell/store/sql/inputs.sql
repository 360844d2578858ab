-- What the steps of workflows take: their plans, the results of other steps, the context.

-- name: upstream_steps(ids)
SELECT e.step_id, d.id, d.template, d.kind, d.state, d.reason, d.response, d.error_message, d.child_block_uuid
FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
WHERE e.step_id @in(:ids bigint);

-- name: elements(blocks)
SELECT block_uuid, element, state, reason, response, error_message FROM steps
WHERE block_uuid @in(:blocks uuid) AND block_uuid <> uuid AND element IS NOT NULL
ORDER BY block_uuid, element;

-- name: failures_behind(ids)
-- Upstream steps and children of these steps that ended without having concluded.
SELECT d.id, d.label, d.action, d.state, d.reason, d.error_message
FROM step_dependencies e JOIN steps d ON d.id = e.depends_on_id
WHERE e.step_id @in(:ids bigint) AND d.state IN @troubled
UNION
SELECT c.id, c.label, c.action, c.state, c.reason, c.error_message
FROM steps p JOIN steps_unconcluded u ON u.block_uuid = p.child_block_uuid AND u.type = 'default'
JOIN steps c ON c.id = u.step_id
WHERE p.id @in(:ids bigint) AND p.reason = 'children_failed' AND c.state IN @retriable
ORDER BY 1;

-- name: plans(ids)
SELECT id, plan FROM steps WHERE id @in(:ids bigint);

-- name: plans_of_dependents(id)
SELECT s.plan FROM step_dependencies e JOIN steps s ON s.id = e.step_id
WHERE e.depends_on_id = :id AND s.plan IS NOT NULL;

-- name: waiting_dependents(ids)
-- What depends on these steps and has not begun, with the name of the step that it depends on.
SELECT s.id, s.plan, d.template AS upstream
FROM steps d JOIN step_dependencies e ON e.depends_on_id = d.id JOIN steps s ON s.id = e.step_id
WHERE d.id @in(:ids bigint) AND s.plan IS NOT NULL AND d.template IS NOT NULL
  AND (s.state = 'Pending' AND s.attempts = 0 OR s.state = 'NotRunnable' AND s.reason = 'predecessor_failed');

-- name: planned_steps(id)
-- The steps of a template, and the elements of its maps.
SELECT id, template, element, kind, plan, state, arguments, response FROM steps
WHERE workflow_id = :id AND workflow_id <> uuid AND template IS NOT NULL
ORDER BY template, element;

-- name: live_steps(after, limit)
-- Steps of templates, and elements of their maps, whose code has yet to run or may run again. An element takes what the
-- plan of its map says.
SELECT s.id, s.workflow_id, s.template, s.element, s.action, s.arguments,
       CASE WHEN s.element IS NULL THEN s.id ELSE s.parent_step_id END AS planned_id
FROM steps_unconcluded u JOIN steps s ON s.id = u.step_id
WHERE u.step_id > :after AND u.workflow_id IS NOT NULL AND NOT u.ended AND s.template IS NOT NULL AND s.kind <> 'gate'
  AND (s.state IN ('Pending', 'Dispatched') OR s.state = 'Running' AND s.own_code_done_at IS NULL)
ORDER BY u.step_id LIMIT :limit;

-- name: contexts(ids)
SELECT id, context FROM steps_workflows WHERE id @in(:ids uuid);

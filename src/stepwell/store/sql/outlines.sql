-- Workflows of any size: counts and pages whose cost does not depend on how many steps a workflow has.

-- name: size_of_workflow(workflow, after, most)
-- How many steps it has beside its root; more than `most` are not counted.
SELECT count(*) AS steps
FROM (SELECT id FROM steps WHERE @after(workflow_id, :workflow) AND workflow_id <> uuid
      ORDER BY @in_order_of(workflow_id) LIMIT :most) AS counted;

-- name: listed_workflows(state, name, before, limit)
-- Declared workflows, the newest first, without their steps in numbers.
SELECT id, namespace, name, version, state, initiator, created_at FROM steps_workflows
WHERE (CAST(:state AS text) IS NULL OR state = CAST(:state AS text))
  AND (CAST(:name AS text) IS NULL OR name = CAST(:name AS text))
  AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: census(workflow, after, limit)
-- The next steps of a workflow by id, counted by what makes them alike and by state.
SELECT parent_step_id, template, action, state, is_throttled, own_code_done, min("index") AS "index", min(id) AS first,
       max(id) AS last, count(*) AS steps
FROM (SELECT id, parent_step_id, template, action, "index", state, is_throttled AND state = 'Pending' AS is_throttled,
             own_code_done_at IS NOT NULL AND state = 'Running' AS own_code_done
      FROM steps WHERE @after(workflow_id, :workflow) AND workflow_id <> uuid ORDER BY @in_order_of(workflow_id) LIMIT :limit) AS part
GROUP BY parent_step_id, template, action, state, is_throttled, own_code_done;

-- name: ids_of_workflow(workflow, after, limit)
SELECT id FROM steps WHERE @after(workflow_id, :workflow) AND workflow_id <> uuid ORDER BY @in_order_of(workflow_id) LIMIT :limit;

-- name: ids_of_children(parent, after, limit)
SELECT id FROM steps WHERE @after(parent_step_id, :parent) ORDER BY @in_order_of(parent_step_id) LIMIT :limit;

-- name: ids_alike_below(parent, action, after, window, limit)
-- Children that run the same action, among the next `window` children.
SELECT id FROM (SELECT id, action FROM steps WHERE @after(parent_step_id, :parent) ORDER BY @in_order_of(parent_step_id) LIMIT :window) AS among
WHERE action = :action ORDER BY id LIMIT :limit;

-- name: ids_alike_on_top(workflow, action, template, after, window, limit)
-- The same for steps without a parent.
SELECT id FROM (SELECT id, action, template, parent_step_id FROM steps
                WHERE @after(workflow_id, :workflow) AND workflow_id <> uuid ORDER BY @in_order_of(workflow_id) LIMIT :window) AS among
WHERE parent_step_id IS NULL AND action = :action AND coalesce(template, '') = :template ORDER BY id LIMIT :limit;

-- name: ids_ended_in_workflow(workflow, limit)
-- Of a declared workflow: what has ended and did not conclude. (`ended` alone would also fit the index of all that ended.)
SELECT step_id FROM steps_unconcluded WHERE workflow_id = :workflow AND ended >= true LIMIT :limit;

-- name: ids_ended_below(parent, limit)
-- The same of the children of a step.
SELECT u.step_id FROM steps_unconcluded u
WHERE u.block_uuid = (SELECT p.child_block_uuid FROM steps p WHERE p.id = :parent) AND u.ended LIMIT :limit;

-- name: ids_in_flight(limit)
-- What is dispatched or runs, of all workflows.
SELECT step_id FROM (SELECT step_id FROM steps_agenda WHERE status = 'running'
                     UNION ALL SELECT step_id FROM steps_agenda WHERE status = 'dispatched') AS found LIMIT :limit;

-- name: outline_steps(ids)
SELECT id, workflow_id, parent_step_id, label, action, template, element, type, "index", state, is_throttled, own_code_done_at, has_children,
       reason, substr(error_message, 1, 300) AS error, duration, created_at, updated_at
FROM steps WHERE id @in(:ids bigint) ORDER BY id;

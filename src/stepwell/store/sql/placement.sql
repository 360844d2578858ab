-- Finding the place of a new step: its workflow, block, parent and neighbours.

-- name: group_of_workflow(workflow)
-- The group of an existing workflow: from the step whose UUID names it, or from any other step of it.
SELECT "group" FROM steps WHERE uuid = :workflow
UNION ALL
SELECT "group" FROM (SELECT "group" FROM steps WHERE workflow_id = :workflow AND workflow_id <> uuid LIMIT 1) AS member;

-- name: parent_of_block(block)
SELECT id FROM steps WHERE child_block_uuid = :block;

-- name: member_of_block(block)
-- The step whose UUID names the block, or any other one; sorted as the index is: ordered by id alone, PostgreSQL would
-- scan all steps.
SELECT id FROM steps WHERE uuid = :block AND coalesce(block_uuid, uuid) = uuid AND parent_step_id IS NULL
UNION ALL
SELECT id FROM (SELECT id FROM steps WHERE block_uuid = :block AND block_uuid <> uuid AND placed
                ORDER BY type, "index", id LIMIT 1) AS member;

-- name: occupant_of_block(block, parent)
-- A step that prevents this block from becoming the child block of this parent.
SELECT id FROM steps WHERE child_block_uuid = :block AND id <> :parent
UNION ALL
SELECT id FROM steps WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND (parent_step_id IS NULL OR parent_step_id <> :parent)
LIMIT 1;

-- name: workflow_graph(workflow)
-- The steps that may still wait for others, for cycle detection.
SELECT id, label, action, parent_step_id, block_uuid, type, "index" FROM steps
WHERE (uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid) AND state NOT IN @concluded;

-- name: workflow_edges(workflow)
SELECT e.step_id, e.depends_on_id FROM steps s JOIN step_dependencies e ON e.step_id = s.id
WHERE (s.uuid = :workflow OR s.workflow_id = :workflow AND s.workflow_id <> s.uuid)
  AND s.state NOT IN @concluded;

-- name: lock_steps(ids, uuids)
SELECT id, uuid, label, action, state, reason, type, "group", workflow_id, priority, parent_step_id, block_uuid,
       child_block_uuid, "index", updated_at, belongs_to
FROM steps
WHERE id @in(:ids bigint) OR uuid @in(:uuids uuid)
ORDER BY id
@postgres(FOR NO KEY UPDATE);

-- name: existing_blocks(uuids)
SELECT block_uuid AS name FROM steps
WHERE block_uuid @in(:uuids uuid) AND block_uuid <> uuid AND placed
UNION
SELECT child_block_uuid FROM steps WHERE child_block_uuid @in(:uuids uuid);

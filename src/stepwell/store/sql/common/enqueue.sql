-- Creating steps: their place among the others, and what they mean for those that are already there.

-- name: rotation()
SELECT "group" FROM steps_dispatcher WHERE rotation IS NOT NULL ORDER BY rotation;

-- name: ensure_group(group)!
INSERT INTO steps_dispatcher ("group") VALUES (:group) ON CONFLICT DO NOTHING;

-- name: queue_names()
SELECT name FROM steps_queues UNION SELECT lower(hostname) FROM workers;

-- name: add_queue(name)!
INSERT INTO steps_queues (name) VALUES (:name) ON CONFLICT DO NOTHING;

-- name: workflow_home(workflow)
-- The group of a workflow that exists: of the step that it is named after, or of any other.
SELECT "group" FROM steps WHERE uuid = :workflow
UNION ALL
SELECT "group" FROM (SELECT "group" FROM steps WHERE workflow_id = :workflow AND workflow_id <> uuid LIMIT 1) AS member;

-- name: parent_of_block(block)
SELECT id FROM steps WHERE child_block_uuid = :block;

-- name: member_of_block(block)
-- The step that the block is named after, or any other; in the order of the index: by id alone, PostgreSQL would walk
-- along all steps.
SELECT id FROM steps WHERE uuid = :block AND coalesce(block_uuid, uuid) = uuid AND parent_step_id IS NULL
UNION ALL
SELECT id FROM (SELECT id FROM steps WHERE block_uuid = :block AND block_uuid <> uuid AND placed
                ORDER BY type, "index", id LIMIT 1) AS member;

-- name: occupant_of_block(block, parent)
-- Whoever speaks against a block becoming the child block of this parent.
SELECT id FROM steps WHERE child_block_uuid = :block AND id <> :parent
UNION ALL
SELECT id FROM steps WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND (parent_step_id IS NULL OR parent_step_id <> :parent)
LIMIT 1;

-- name: workflow_graph(workflow)
-- What may still wait for something, for the search for cycles.
SELECT id, label, action, parent_step_id, block_uuid, type, "index" FROM steps
WHERE (uuid = :workflow OR workflow_id = :workflow AND workflow_id <> uuid) AND state NOT IN ('Completed', 'Skipped');

-- name: workflow_edges(workflow)
SELECT e.step_id, e.depends_on_id FROM steps s JOIN step_dependencies e ON e.step_id = s.id
WHERE (s.uuid = :workflow OR s.workflow_id = :workflow AND s.workflow_id <> s.uuid)
  AND s.state NOT IN ('Completed', 'Skipped');

-- name: take_children(id, child_block)!
UPDATE steps SET child_block_uuid = :child_block, has_children = true, changed_from = NULL WHERE id = :id;

-- name: note_block_dependents(block)!
-- A root block that others now share.
UPDATE steps SET has_dependents = true, changed_from = NULL
WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND parent_step_id IS NULL AND NOT has_dependents;

-- name: enrol_block(block)!
INSERT INTO steps_unconcluded (step_id, block_uuid, type, "index", ended)
SELECT id, block_uuid, type, "index", state NOT IN ('Pending', 'Dispatched', 'Running') AND lease_worker IS NULL
FROM steps
WHERE (uuid = :block AND block_uuid = uuid OR block_uuid = :block AND block_uuid <> uuid)
  AND placed AND (state NOT IN ('Completed', 'Skipped') OR lease_worker IS NOT NULL)
ON CONFLICT DO NOTHING;

-- name: withdraw_successors(block, type, index)!
-- A step was put in front of others of its block: those that have not been dispatched wait for it.
DELETE FROM steps_agenda
WHERE status IN ('open', 'delayed', 'unchecked')
  AND step_id IN (SELECT step_id FROM steps_unconcluded
                  WHERE block_uuid = :block AND type = :type AND "index" > :index);

-- name: place_step(id, workflow_id, parent_step_id, block_uuid, index, group, queue, priority, shares_block)!
UPDATE steps SET placed = true, workflow_id = :workflow_id, parent_step_id = :parent_step_id, block_uuid = :block_uuid,
    "index" = :index, "group" = :group, queue = :queue, priority = :priority,
    has_dependents = (has_dependents OR :shares_block), changed_from = NULL
WHERE id = :id AND NOT placed;

-- name: new_parent(parent, block, uuid)
-- The parent that a row names, if it is new itself, or the new step that its block is named after.
SELECT id, state FROM steps WHERE id = :parent AND NOT placed
UNION ALL
SELECT id, state FROM steps WHERE child_block_uuid = :block AND NOT placed
UNION ALL
SELECT id, state FROM steps WHERE uuid = :block AND uuid <> :uuid AND NOT placed;

-- name: leave_new(id)!
DELETE FROM steps_agenda WHERE step_id = :id AND status = 'new';

-- name: send_to_sleep(id, actor, now)!
-- An exception handler that plain SQL wrote as Pending.
UPDATE steps SET state = 'NotRunnable', reason = 'dormant', actor = :actor, updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Pending' AND type = 'resolve-exception';

-- name: refuse_step(id, actor, message, now)!
UPDATE steps SET state = 'Failed', reason = 'refused', error_message = :message, actor = :actor, completed_at = :now,
    updated_at = :now, changed_from = state
WHERE id = :id AND state = 'Pending';

-- Adopting rows that were inserted with plain SQL: each is validated and placed among the existing steps.

-- name: place_step(id, workflow_id, parent_step_id, block_uuid, index, group, queue, priority, max_retries, timeout, cooldown, concurrency_key, concurrency_limit, shares_block, belongs_to)!
UPDATE steps SET placed = true, workflow_id = :workflow_id, parent_step_id = :parent_step_id, block_uuid = :block_uuid,
    "index" = :index, "group" = :group, queue = :queue, priority = :priority, max_retries = :max_retries, timeout = :timeout,
    cooldown = :cooldown, concurrency_key = :concurrency_key, concurrency_limit = :concurrency_limit,
    has_dependents = (has_dependents OR :shares_block), belongs_to = :belongs_to, changed_from = NULL
WHERE id = :id AND NOT placed;

-- name: new_parent(parent, block, uuid)
-- The parent that a row refers to, if it is itself not placed yet, or the unplaced step whose UUID names its block.
SELECT id, state FROM steps WHERE id = :parent AND NOT placed
UNION ALL
SELECT id, state FROM steps WHERE child_block_uuid = :block AND NOT placed
UNION ALL
SELECT id, state FROM steps WHERE uuid = :block AND uuid <> :uuid AND NOT placed;

-- name: delete_new_entry(id)!
DELETE FROM steps_agenda WHERE step_id = :id AND status = 'new';

-- name: make_dormant(id, actor, now)
-- An exception handler that plain SQL inserted as Pending.
UPDATE steps SET @to('NotRunnable'), reason = 'dormant'
WHERE id = :id AND state = 'Pending' AND type = 'resolve-exception'
@changes;

-- name: refuse_step(id, actor, message, now)
UPDATE steps SET @to('Failed'), reason = 'refused', error_message = :message, completed_at = :now
WHERE id = :id AND state = 'Pending'
@changes;

-- name: new_steps(limit)
SELECT s.id, s.uuid, s.action, s.arguments, s.label, s.type, s.parent_step_id, s.block_uuid, s.child_block_uuid, s."index",
       s.workflow_id, s."group", s.queue, s.priority, s.relatable_type, s.relatable_id, s.idempotency_key, s.concurrency_key,
       s.concurrency_limit, s.max_retries, s.timeout, s.cooldown
FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' ORDER BY a.step_id LIMIT :limit
@postgres(FOR UPDATE OF a SKIP LOCKED);

-- name: new_step(id)
SELECT s.id, s.uuid, s.action, s.arguments, s.label, s.type, s.parent_step_id, s.block_uuid, s.child_block_uuid, s."index",
       s.workflow_id, s."group", s.queue, s.priority, s.relatable_type, s.relatable_id, s.idempotency_key, s.concurrency_key,
       s.concurrency_limit, s.max_retries, s.timeout, s.cooldown
FROM steps_agenda a JOIN steps s ON s.id = a.step_id WHERE a.status = 'new' AND a.step_id = :id
@postgres(FOR UPDATE OF a SKIP LOCKED);

-- name: new_ids(limit)
SELECT step_id FROM steps_agenda WHERE status = 'new' ORDER BY step_id LIMIT :limit;

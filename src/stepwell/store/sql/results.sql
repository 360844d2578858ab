-- What related steps ended with, for the code of a running one.

-- name: steps_before(id)
-- The step whose UUID names a block is not in the index by block.
SELECT id, uuid, action, label, "index", type, state, reason, error_message, response FROM steps
WHERE id @in(
    SELECT depends_on_id FROM step_dependencies WHERE step_id = :id
    UNION
    SELECT b.id FROM steps s JOIN steps b ON b.block_uuid = s.block_uuid AND b.block_uuid <> b.uuid
    WHERE s.id = :id AND b.type = 'default' AND (s.type = 'resolve-exception' OR b."index" < s."index")
    UNION
    SELECT r.id FROM steps s JOIN steps r ON r.uuid = s.block_uuid AND r.block_uuid = r.uuid
    WHERE s.id = :id AND r.type = 'default' AND (s.type = 'resolve-exception' OR r."index" < s."index"))
ORDER BY "index", id;

-- name: steps_below(id)
SELECT c.id, c.uuid, c.action, c.label, c."index", c.type, c.state, c.reason, c.error_message, c.response
FROM steps p JOIN steps c ON c.block_uuid = p.child_block_uuid AND c.block_uuid <> c.uuid
WHERE p.id = :id ORDER BY c.type, c."index", c.id;

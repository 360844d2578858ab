-- name: text_as_bytes(id)
SELECT json_object(
    'action', hex("action"),
    'arguments', hex("arguments"),
    'label', hex("label"),
    'queue', hex("queue"),
    'group', hex("group"),
    'uuid', hex("uuid"),
    'type', hex("type"),
    'priority', hex("priority"),
    'relatable_type', hex("relatable_type"),
    'relatable_id', hex("relatable_id"),
    'idempotency_key', hex("idempotency_key"),
    'concurrency_key', hex("concurrency_key"),
    'checkpoint', hex("checkpoint"),
    'response', hex("response"),
    'stage', hex("stage"),
    'workflow_id', hex("workflow_id"),
    'block_uuid', hex("block_uuid"),
    'child_block_uuid', hex("child_block_uuid"))
FROM steps WHERE id = :id;

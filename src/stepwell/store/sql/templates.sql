-- Templates: the versions of workflows that were registered.

-- name: record_template(namespace, name, version, content_hash, definition, now)!
INSERT INTO steps_templates (namespace, name, version, content_hash, definition, registered_at)
VALUES (:namespace, :name, :version, :content_hash, :definition, :now)
ON CONFLICT (namespace, name, version) DO NOTHING;

-- name: replace_template(namespace, name, version, content_hash, definition, now)!
UPDATE steps_templates SET content_hash = :content_hash, definition = :definition, registered_at = :now
WHERE namespace = :namespace AND name = :name AND version = :version;

-- name: recorded_template(namespace, name, version)
SELECT content_hash FROM steps_templates WHERE namespace = :namespace AND name = :name AND version = :version;

-- name: applied_migrations()
SELECT version, checksum FROM steps_migrations ORDER BY version;

-- name: record_migration(version, name, checksum)!
INSERT INTO steps_migrations (version, name, checksum) VALUES (:version, :name, :checksum);

-- name: forget_legal_transitions()!
DELETE FROM steps_legal_transitions;

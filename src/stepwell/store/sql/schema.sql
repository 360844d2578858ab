-- The schema itself.

-- name: applied_migrations()
SELECT version, checksum FROM steps_migrations ORDER BY version;

-- name: record_migration(version, name, checksum)!
INSERT INTO steps_migrations (version, name, checksum) VALUES (:version, :name, :checksum)
ON CONFLICT (version) DO UPDATE SET name = excluded.name, checksum = excluded.checksum;

-- name: recorded_checksum(version)
SELECT checksum FROM steps_migrations WHERE version = :version;

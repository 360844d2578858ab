-- name: lock_name(name)
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:name AS text), 0)) IS NULL AS locked;

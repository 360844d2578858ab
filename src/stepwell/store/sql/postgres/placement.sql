-- name: lock_name(name)
SELECT pg_advisory_xact_lock(hashtextextended(CAST(:name AS text), CAST(CAST('steps' AS regclass) AS bigint))) IS NULL AS locked;

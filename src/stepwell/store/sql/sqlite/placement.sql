-- name: lock_name(name)
-- The write lock of SQLite already excludes every other writer.
SELECT 1 AS locked WHERE :name IS NOT NULL;

-- name: lock_name(name)
-- The write lock already keeps everyone else out.
SELECT 1 AS locked WHERE :name IS NOT NULL;

-- name: lock_limits()
-- The write lock already keeps every other claim out.
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name;

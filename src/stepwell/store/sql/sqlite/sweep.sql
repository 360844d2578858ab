-- name: hold_one_snapshot()!
-- A transaction of SQLite sees one snapshot anyway.
SELECT 1;

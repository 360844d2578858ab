-- name: hold_one_snapshot()!
-- A mark is committed with its change: in one snapshot a change without its mark is really one.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;

-- name: lock_limits()
-- One claim at a time while there are limits: so they are exact.
SELECT kind, name, maximum FROM steps_limits ORDER BY kind, name FOR UPDATE;

-- name: database_time()
SELECT clock_timestamp() AS now;

-- name: notify(wake)
-- To everyone who listens on this schema.
SELECT pg_notify('stepwell:' || current_schema(), :wake) IS NULL AS sent;

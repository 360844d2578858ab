-- name: database_time()
SELECT clock_timestamp() AS now;

-- name: notify(wake)
-- Sends a wake-up to every listener on this schema.
SELECT pg_notify(left('stepwell:' || current_schema(), 63), :wake) IS NULL AS sent;

-- name: database_time()
SELECT clock_timestamp() AS now;

-- name: notify(wake)
-- Sends a wake-up to every listener on this schema.
SELECT pg_notify(left('stepwell:' || current_schema(), 63), :wake) IS NULL AS sent;

-- name: identity()
SELECT value AS id, (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database,
       'steps'::regclass::oid::bigint AS steps
FROM steps_settings WHERE name = 'database_id';

-- name: database_version()
SELECT current_setting('server_version') AS version;

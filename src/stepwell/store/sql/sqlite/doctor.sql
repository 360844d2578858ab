-- name: database_version()
SELECT sqlite_version() AS version;

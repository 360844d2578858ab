-- name: text_as_bytes(id)
-- The server stores only valid text.
SELECT NULL WHERE CAST(:id AS bigint) IS NULL;

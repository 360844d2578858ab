-- Sessions of browsers that have signed out.

-- name: end_session(id_hash, ends_at)!
INSERT INTO steps_ended_sessions (id_hash, ends_at) VALUES (:id_hash, :ends_at) ON CONFLICT DO NOTHING;

-- name: has_ended(id_hash)
SELECT EXISTS (SELECT 1 FROM steps_ended_sessions WHERE id_hash = :id_hash);

-- name: forget_ended_sessions(before)!
DELETE FROM steps_ended_sessions WHERE ends_at < :before;

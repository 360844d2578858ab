-- Requests with an `Idempotency-Key`, and the answers to them.

-- name: begin_request(visitor, key, fingerprint, now)!
INSERT INTO steps_requests (visitor, key, fingerprint, created_at) VALUES (:visitor, :key, :fingerprint, :now)
ON CONFLICT DO NOTHING;

-- name: request(visitor, key)
SELECT fingerprint, status, answer FROM steps_requests WHERE visitor = :visitor AND key = :key;

-- name: answer_request(visitor, key, status, answer)!
UPDATE steps_requests SET status = :status, answer = :answer WHERE visitor = :visitor AND key = :key;

-- name: forget_old_requests(before)!
DELETE FROM steps_requests WHERE created_at < :before;

-- Sessions of browsers that have signed out: their cookies are valid by themselves, and must not be accepted any more.

CREATE TABLE steps_ended_sessions (
    id_hash text PRIMARY KEY, -- SHA-256 of the id in the cookie
    ends_at timestamptz NOT NULL -- when the cookie ends by itself: then this row is deleted
);
CREATE INDEX steps_ended_sessions_by_age ON steps_ended_sessions (ends_at);

-- A request and its answer are one transaction now.
DELETE FROM steps_requests WHERE status IS NULL;

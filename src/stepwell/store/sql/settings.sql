-- The circuit breaker.

-- name: set_breaker(value, actor, reason, now)!
INSERT INTO steps_settings (name, value, changed_by, reason, changed_at)
VALUES ('can_dispatch_steps', :value, :actor, :reason, :now)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_by = excluded.changed_by, reason = excluded.reason,
    changed_at = excluded.changed_at;

-- name: in_flight()
-- What must end before a restart is safe: dispatched steps and running leases.
SELECT a."group" AS "group", a.status, count(*) AS steps FROM steps_agenda a
WHERE a.status IN ('dispatched', 'running') GROUP BY a."group", a.status;

-- name: breaker_state()
SELECT value, changed_by, reason, changed_at FROM steps_settings WHERE name = 'can_dispatch_steps';

-- name: breaker_for_dispatch()
-- A pause waits for this dispatch to commit; after the pause there is no further dispatch.
SELECT value FROM steps_settings WHERE name = 'can_dispatch_steps' @postgres(FOR SHARE);

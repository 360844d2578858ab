-- The circuit breaker.

-- name: set_breaker(value, actor, reason, now, planned_end)!
-- No row is changed if it has this value already, unless a planned end is given: the other columns stay then.
INSERT INTO steps_settings (name, value, changed_by, reason, changed_at, planned_end)
VALUES ('can_dispatch_steps', :value, :actor, :reason, :now, :planned_end)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, planned_end = excluded.planned_end,
    changed_by = CASE WHEN steps_settings.value <> excluded.value THEN excluded.changed_by ELSE steps_settings.changed_by END,
    reason = CASE WHEN steps_settings.value <> excluded.value THEN excluded.reason ELSE steps_settings.reason END,
    changed_at = CASE WHEN steps_settings.value <> excluded.value THEN excluded.changed_at ELSE steps_settings.changed_at END,
    revision = steps_settings.revision + 1
WHERE steps_settings.value <> excluded.value OR excluded.planned_end IS NOT NULL;

-- name: in_flight()
-- What must end before a restart is safe: dispatched steps and running leases.
SELECT a."group" AS "group", a.status, count(*) AS steps FROM steps_agenda a
WHERE a.status IN ('dispatched', 'running') GROUP BY a."group", a.status;

-- name: breaker_state()
SELECT value, changed_by, reason, changed_at, planned_end FROM steps_settings WHERE name = 'can_dispatch_steps';

-- name: breaker_for_dispatch()
-- A pause waits for this dispatch to commit; after the pause there is no further dispatch.
SELECT value FROM steps_settings WHERE name = 'can_dispatch_steps' @postgres(FOR SHARE);

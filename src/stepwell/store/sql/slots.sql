-- Deciding slots: what is due, the executions that are created, and the ledger.

-- name: survey(now, ahead)
-- Whether a scheduler has anything to do, and when it will. A minimum is one look at an index, also for a planner that
-- has no statistics.
SELECT coalesce((SELECT min(next_slot) FROM cron_jobs WHERE next_slot IS NOT NULL) <= @time(:now), false) AS due,
       (SELECT min(edited_at) FROM cron_jobs WHERE edited_at IS NOT NULL) IS NOT NULL AS edited,
       coalesce((SELECT max(last_slot) FROM cron_jobs WHERE next_slot IS NOT NULL) > @time(:ahead), false) AS ahead,
       coalesce((SELECT min(expect_at) FROM cron_jobs WHERE expect_at IS NOT NULL) <= @time(:now), false) AS overdue,
       coalesce((SELECT min(start_by) FROM job_executions
                 WHERE start_by IS NOT NULL AND status = 'PENDING' AND started_at IS NULL) <= @time(:now), false) AS late,
       (SELECT min(next_slot) FROM cron_jobs WHERE next_slot > :now) AS next_slot,
       (SELECT min(expect_at) FROM cron_jobs WHERE expect_at > :now) AS next_expected,
       (SELECT min(start_by) FROM job_executions
        WHERE start_by > :now AND start_by IS NOT NULL AND status = 'PENDING' AND started_at IS NULL) AS next_late;

-- name: lock_due(now, excluded, limit)
SELECT * FROM cron_jobs WHERE next_slot <= :now AND edited_at IS NULL AND id @not_in(:excluded bigint)
ORDER BY next_slot, id LIMIT :limit @postgres(FOR UPDATE SKIP LOCKED);

-- name: lock_ahead(ahead, limit)
-- The clock went back: slots after now have been decided.
SELECT * FROM cron_jobs WHERE next_slot IS NOT NULL AND last_slot > :ahead AND edited_at IS NULL
ORDER BY last_slot LIMIT :limit @postgres(FOR UPDATE SKIP LOCKED);

-- name: lock_overdue(now, excluded, limit)
SELECT * FROM cron_jobs WHERE expect_at <= :now AND edited_at IS NULL AND id @not_in(:excluded bigint)
ORDER BY expect_at, id LIMIT :limit @postgres(FOR UPDATE SKIP LOCKED);

-- name: expecting()
SELECT * FROM cron_jobs WHERE expect_at IS NOT NULL ORDER BY id;

-- name: live_executions(ids, keys)
-- What keeps the next slot of a cron without overlap from running: an execution that has not ended, or a step of one
-- that has, but whose process still runs.
SELECT e.job_id, min(e.id) AS execution_id
FROM job_executions e WHERE e.job_id @in(:ids bigint) AND e.status IN ('PENDING', 'RUNNING') GROUP BY e.job_id
UNION ALL
SELECT e.job_id, min(e.id)
FROM steps_agenda a JOIN job_executions e ON e.step_id = a.step_id
WHERE a.concurrency_key @in(:keys text) AND a.status = 'running' AND e.status NOT IN ('PENDING', 'RUNNING') GROUP BY e.job_id;

-- name: insert_executions(rows, now)
INSERT INTO job_executions (job_id, scheduled_time, kind, slot, revision, requested_by, reason, start_by, created_at)
SELECT r.job_id, r.scheduled_time, r.kind, r.slot, r.revision, r.requested_by, r.reason, r.start_by, @time(:now)
FROM @rows(:rows, job_id bigint, scheduled_time timestamptz, kind text, slot timestamptz, revision integer, requested_by text, reason text, start_by timestamptz) AS r
WHERE true
ON CONFLICT (job_id, scheduled_time) DO NOTHING
RETURNING id, job_id, scheduled_time;

-- name: execution_at(job_id, scheduled_time)
SELECT id FROM job_executions WHERE job_id = :job_id AND scheduled_time = :scheduled_time;

-- name: link_executions(rows)!
UPDATE job_executions SET step_id = r.step_id, workflow_id = r.workflow_id
FROM @rows(:rows, id bigint, step_id bigint, workflow_id uuid) AS r
WHERE job_executions.id = r.id;

-- name: newest_time_without_slot(job_id)
SELECT max(scheduled_time) FROM job_executions WHERE job_id = :job_id AND kind <> 'slot';

-- name: insert_slots(rows, now)!
INSERT INTO steps_schedule_slots (job_id, slot, until_slot, outcome, reason, detail, execution_id, expression, zone, decided_at)
SELECT r.job_id, r.slot, r.until_slot, r.outcome, r.reason, r.detail, r.execution_id, r.expression, r.zone, @time(:now)
FROM @rows(:rows, job_id bigint, slot timestamptz, until_slot timestamptz, outcome text, reason text, detail text, execution_id bigint, expression text, zone text) AS r
WHERE true
ON CONFLICT (job_id, slot) DO NOTHING;

-- name: advance(rows)!
-- Compares the definition and the last slot with those that were decided upon.
UPDATE cron_jobs SET last_slot = r.last_slot, next_slot = r.next_slot
FROM @rows(:rows, id bigint, revision integer, before timestamptz, last_slot timestamptz, next_slot timestamptz) AS r
WHERE cron_jobs.id = r.id AND cron_jobs.revision = r.revision
  AND cron_jobs.last_slot @sqlite(IS)@postgres(IS NOT DISTINCT FROM) r.before;

-- name: expect(id, alarmed_slot, expect_at)!
UPDATE cron_jobs SET alarmed_slot = :alarmed_slot, expect_at = :expect_at WHERE id = :id;

-- The clock went back ----------------------------------------------------------------------------------

-- name: withdraw_skipped(job_id, now)!
DELETE FROM steps_schedule_slots WHERE job_id = :job_id AND slot > :now AND execution_id IS NULL;

-- name: gap_around(job_id, now)
SELECT * FROM steps_schedule_slots
WHERE job_id = :job_id AND slot <= :now AND until_slot > :now AND outcome = 'skipped';

-- name: decided_ahead(ids)
SELECT s.job_id, s.slot FROM cron_jobs c JOIN steps_schedule_slots s ON s.job_id = c.id AND s.slot > c.last_slot
WHERE c.id @in(:ids bigint) ORDER BY s.job_id, s.slot;

-- name: shorten_gap(id, until_slot)!
UPDATE steps_schedule_slots SET until_slot = :until_slot WHERE id = :id;

-- Reading ----------------------------------------------------------------------------------------------

-- name: slots_between(job_id, first, last, limit)
SELECT * FROM steps_schedule_slots
WHERE job_id = :job_id AND until_slot >= :first AND slot <= :last ORDER BY slot LIMIT :limit;

-- name: newest_slots(job_id, limit)
SELECT * FROM steps_schedule_slots WHERE job_id = :job_id ORDER BY slot DESC LIMIT :limit;

-- name: slot_row(job_id, slot)
-- The row that covers a slot: its own, or that of a gap.
SELECT * FROM steps_schedule_slots
WHERE job_id = :job_id AND slot <= :slot AND until_slot >= :slot ORDER BY slot DESC LIMIT 1;

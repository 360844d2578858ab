-- Cron jobs: their definitions, the history of those, and what code declares.

-- name: insert_cron(name, description, expression, handler, params, enabled, max_retry, timeout_seconds, target, zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within, app, declared, overrides, disabled_by, disabled_at, disabled_reason, hash_seed, recorded, last_slot, next_slot, expect_at, now)
INSERT INTO cron_jobs (name, description, cron_expression, handler_name, handler_params, is_enabled, max_retry, timeout_seconds, target,
                       zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within, app, declared, overrides,
                       disabled_by, disabled_at, disabled_reason, hash_seed, revision, recorded, edited_at, last_slot, next_slot,
                       ledger_from, expected_from, expect_at, created_at, updated_at)
VALUES (:name, :description, :expression, :handler, :params, :enabled, :max_retry, :timeout_seconds, :target,
        :zone, :misfire, :misfire_limit, :start_deadline, :allow_overlap, :jitter, :expect_within, :app, :declared, :overrides,
        :disabled_by, :disabled_at, :disabled_reason, :hash_seed, 1, :recorded, NULL, :last_slot, :next_slot,
        :last_slot, :last_slot, :expect_at, :now, :now)
ON CONFLICT (name) DO NOTHING
RETURNING id;

-- name: write_definition(id, revision, description, expression, handler, params, enabled, max_retry, timeout_seconds, target, zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within, app, declared, overrides, disabled_by, disabled_at, disabled_reason, hash_seed, recorded, last_slot, next_slot, ledger_from, expected_from, expect_at, now)!
UPDATE cron_jobs SET description = :description, cron_expression = :expression, handler_name = :handler, handler_params = :params,
    is_enabled = :enabled, max_retry = :max_retry, timeout_seconds = :timeout_seconds, target = :target, zone = :zone,
    misfire = :misfire, misfire_limit = :misfire_limit, start_deadline = :start_deadline, allow_overlap = :allow_overlap,
    jitter = :jitter, expect_within = :expect_within, app = :app, declared = :declared, overrides = :overrides,
    disabled_by = :disabled_by, disabled_at = :disabled_at, disabled_reason = :disabled_reason, hash_seed = :hash_seed,
    revision = revision + 1, recorded = :recorded, edited_at = NULL, last_slot = :last_slot, next_slot = :next_slot,
    ledger_from = :ledger_from, expected_from = :expected_from, expect_at = :expect_at, updated_at = :now
WHERE id = :id AND revision = :revision;

-- name: delete_cron(id)!
DELETE FROM cron_jobs WHERE id = :id;

-- name: cron_by_name(name)
SELECT * FROM cron_jobs WHERE name = :name;

-- name: cron_by_id(id)
SELECT * FROM cron_jobs WHERE id = :id;

-- name: all_crons(after, limit)
SELECT * FROM cron_jobs WHERE id > :after ORDER BY id LIMIT :limit;

-- name: cron_names()
SELECT name FROM cron_jobs ORDER BY name;

-- name: crons_of_app(app)
SELECT * FROM cron_jobs WHERE app = :app ORDER BY id;

-- name: lock_cron(id)
SELECT * FROM cron_jobs WHERE id = :id @postgres(FOR UPDATE);

-- name: lock_edited(excluded, limit)
-- Rows that plain SQL inserted or changed.
SELECT * FROM cron_jobs WHERE edited_at IS NOT NULL AND id @not_in(:excluded bigint)
ORDER BY edited_at, id LIMIT :limit @postgres(FOR UPDATE SKIP LOCKED);

-- name: known_handlers(names)
-- Which of these are actions that a worker has recorded.
SELECT name FROM steps_actions WHERE name @in(:names text);

-- name: all_handlers()
SELECT name FROM steps_actions ORDER BY name LIMIT 1000;

-- name: known_workflow(namespace, name)
SELECT name FROM steps_templates WHERE namespace = :namespace AND name = :name LIMIT 1;

-- name: record_change(job_id, name, kind, actor, reason, revision, before, after, at)!
INSERT INTO steps_schedule_changes (job_id, name, kind, actor, reason, changed_at, revision, before, after)
VALUES (:job_id, :name, :kind, :actor, :reason, :at, :revision, :before, :after);

-- name: changes_of(job_id)
SELECT * FROM steps_schedule_changes WHERE job_id = :job_id ORDER BY id;

-- name: changes_named(name)
-- Also of crons that were deleted.
SELECT * FROM steps_schedule_changes WHERE name = :name ORDER BY id;

-- name: add_code(app, content_hash, now)!
INSERT INTO steps_schedule_code (app, content_hash, seen_at) VALUES (:app, :content_hash, :now)
ON CONFLICT (app, content_hash) DO NOTHING;

-- name: newest_code(app)
SELECT content_hash, seen_at FROM steps_schedule_code WHERE app = :app ORDER BY id DESC LIMIT 1;

-- name: is_known_code(app, content_hash)
SELECT content_hash, seen_at FROM steps_schedule_code WHERE app = :app AND content_hash = :content_hash;

-- name: forget_code(app, content_hash)!
DELETE FROM steps_schedule_code WHERE app = :app AND content_hash = :content_hash;

-- When schedulers ran ----------------------------------------------------------------------------------

-- name: begin_presence(name, now)
INSERT INTO steps_schedulers (name, ran_from, ran_until) VALUES (:name, :now, :now) RETURNING id;

-- name: extend_presence(id, now)!
UPDATE steps_schedulers SET ran_until = :now WHERE id = :id AND ran_until <= :now;

-- name: presence(first, last)
-- The runs that touch a period, and the last one before it and the first one after it.
SELECT * FROM steps_schedulers WHERE ran_until >= :first AND ran_from <= :last
UNION
SELECT * FROM (SELECT * FROM steps_schedulers WHERE ran_until < :first ORDER BY ran_until DESC LIMIT 1) AS b
UNION
SELECT * FROM (SELECT * FROM steps_schedulers WHERE ran_from > :last ORDER BY ran_from LIMIT 1) AS a
ORDER BY ran_from;

-- name: forget_presence(before)!
DELETE FROM steps_schedulers WHERE ran_until < :before;

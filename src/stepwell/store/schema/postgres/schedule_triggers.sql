-- Changes of cron jobs by plain SQL: schedulers look for `edited_at`, and are woken. What Stepwell itself writes has a
-- new revision.

CREATE OR REPLACE FUNCTION cron_jobs_edited() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.edited_at := coalesce(OLD.edited_at, clock_timestamp());
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS cron_jobs_edited ON cron_jobs;
CREATE TRIGGER cron_jobs_edited BEFORE UPDATE OF description, cron_expression, handler_name, handler_params, is_enabled, max_retry,
    timeout_seconds, target, zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within ON cron_jobs
    FOR EACH ROW WHEN (NEW.revision = OLD.revision) EXECUTE FUNCTION cron_jobs_edited();

CREATE OR REPLACE FUNCTION cron_jobs_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(left('stepwell:' || TG_TABLE_SCHEMA, 63), 'schedules');
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS cron_jobs_wake ON cron_jobs;
CREATE TRIGGER cron_jobs_wake AFTER INSERT OR UPDATE ON cron_jobs
    FOR EACH ROW WHEN (NEW.edited_at IS NOT NULL) EXECUTE FUNCTION cron_jobs_wake();

CREATE OR REPLACE FUNCTION cron_jobs_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_schedule_changes (job_id, name, kind, actor, changed_at, revision, before)
    SELECT OLD.id, OLD.name, 'deleted', 'plain SQL', clock_timestamp(), OLD.revision, OLD.recorded
    WHERE NOT EXISTS (SELECT 1 FROM steps_schedule_changes WHERE job_id = OLD.id AND kind = 'deleted');
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS cron_jobs_deleted ON cron_jobs;
CREATE TRIGGER cron_jobs_deleted AFTER DELETE ON cron_jobs FOR EACH ROW EXECUTE FUNCTION cron_jobs_deleted();

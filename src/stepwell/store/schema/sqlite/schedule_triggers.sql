-- Changes of cron jobs by plain SQL: schedulers look for `edited_at`. What Stepwell itself writes has a new revision.

DROP TRIGGER IF EXISTS cron_jobs_edited;
CREATE TRIGGER cron_jobs_edited AFTER UPDATE OF description, cron_expression, handler_name, handler_params, is_enabled, max_retry,
    timeout_seconds, target, zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within ON cron_jobs
WHEN NEW.revision = OLD.revision
BEGIN
    UPDATE cron_jobs SET edited_at = coalesce(OLD.edited_at, strftime('%Y-%m-%d %H:%M:%f000', 'now')) WHERE id = NEW.id;
END;

-- Not every client of SQLite has foreign keys switched on.
DROP TRIGGER IF EXISTS cron_jobs_deleted;
CREATE TRIGGER cron_jobs_deleted AFTER DELETE ON cron_jobs
BEGIN
    DELETE FROM job_executions WHERE job_id = OLD.id;
    DELETE FROM steps_schedule_slots WHERE job_id = OLD.id;
    INSERT INTO steps_schedule_changes (job_id, name, kind, actor, changed_at, revision, before)
    SELECT OLD.id, OLD.name, 'deleted', 'plain SQL', strftime('%Y-%m-%d %H:%M:%f000', 'now'), OLD.revision, OLD.recorded
    WHERE NOT EXISTS (SELECT 1 FROM steps_schedule_changes WHERE job_id = OLD.id AND kind = 'deleted');
END;

-- A time is text here, and plain SQL may write it in another form: one that exists is ignored, else it gets our form.
DROP TRIGGER IF EXISTS job_executions_once;
CREATE TRIGGER job_executions_once BEFORE INSERT ON job_executions
WHEN NEW.scheduled_time NOT GLOB '????-??-?? ??:??:??.??????'
BEGIN
    SELECT RAISE(IGNORE) FROM job_executions
    WHERE job_id = NEW.job_id AND scheduled_time = strftime('%Y-%m-%d %H:%M:%f000', NEW.scheduled_time);
END;
DROP TRIGGER IF EXISTS job_executions_time;
CREATE TRIGGER job_executions_time AFTER INSERT ON job_executions
WHEN NEW.scheduled_time NOT GLOB '????-??-?? ??:??:??.??????'
BEGIN
    UPDATE job_executions SET scheduled_time = strftime('%Y-%m-%d %H:%M:%f000', NEW.scheduled_time) WHERE id = NEW.id;
END;

-- Changes of cron jobs by plain SQL: schedulers look for `edited_at`. What Stepwell itself writes has a new revision.

DROP TRIGGER IF EXISTS cron_jobs_edited;
CREATE TRIGGER cron_jobs_edited AFTER UPDATE OF description, cron_expression, handler_name, handler_params, is_enabled, max_retry,
    timeout_seconds, target, zone, misfire, misfire_limit, start_deadline, allow_overlap, jitter, expect_within ON cron_jobs
WHEN NEW.revision = OLD.revision
BEGIN
    UPDATE cron_jobs SET edited_at = coalesce(OLD.edited_at, strftime('%Y-%m-%d %H:%M:%f000', 'now')) WHERE id = NEW.id;
END;

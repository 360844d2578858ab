-- The breaker, switched by plain SQL: who, why, since when and until when are those of the switch before, unless the
-- statement says them itself. What Stepwell itself writes has a new revision.

DROP TRIGGER IF EXISTS steps_breaker_switched;
CREATE TRIGGER steps_breaker_switched AFTER UPDATE OF value ON steps_settings
WHEN NEW.name = 'can_dispatch_steps' AND NEW.value <> OLD.value AND NEW.revision = OLD.revision
BEGIN
    UPDATE steps_settings
    SET changed_by = CASE WHEN NEW.changed_by IS OLD.changed_by THEN 'plain SQL' ELSE NEW.changed_by END,
        reason = CASE WHEN NEW.reason IS OLD.reason THEN NULL ELSE NEW.reason END,
        changed_at = CASE WHEN NEW.changed_at IS OLD.changed_at THEN strftime('%Y-%m-%d %H:%M:%f000', 'now') ELSE NEW.changed_at END,
        planned_end = CASE WHEN NEW.planned_end IS OLD.planned_end THEN NULL ELSE NEW.planned_end END
    WHERE name = NEW.name;
END;

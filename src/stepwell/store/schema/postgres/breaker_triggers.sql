-- The breaker, switched by plain SQL: who, why, since when and until when are those of the switch before, unless the
-- statement says them itself. What Stepwell itself writes has a new revision.

CREATE OR REPLACE FUNCTION steps_breaker_switched() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.changed_by := CASE WHEN NEW.changed_by IS NOT DISTINCT FROM OLD.changed_by THEN 'plain SQL' ELSE NEW.changed_by END;
    NEW.reason := CASE WHEN NEW.reason IS DISTINCT FROM OLD.reason THEN NEW.reason END;
    NEW.changed_at := CASE WHEN NEW.changed_at = OLD.changed_at THEN clock_timestamp() ELSE NEW.changed_at END;
    NEW.planned_end := CASE WHEN NEW.planned_end IS DISTINCT FROM OLD.planned_end THEN NEW.planned_end END;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS steps_breaker_switched ON steps_settings;
CREATE TRIGGER steps_breaker_switched BEFORE UPDATE OF value ON steps_settings
    FOR EACH ROW WHEN (NEW.name = 'can_dispatch_steps' AND NEW.value <> OLD.value AND NEW.revision = OLD.revision)
    EXECUTE FUNCTION steps_breaker_switched();

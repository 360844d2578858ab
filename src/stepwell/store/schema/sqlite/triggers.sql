-- The effects of every change of a step, re-created by `migrate` whenever they have changed.

DROP TRIGGER IF EXISTS steps_key_entered;
CREATE TRIGGER steps_key_entered AFTER INSERT ON steps_agenda WHEN NEW.concurrency_key IS NOT NULL AND NEW.status = 'open'
BEGIN
    INSERT INTO steps_key_marks (concurrency_key) VALUES (NEW.concurrency_key);
END;

DROP TRIGGER IF EXISTS steps_key_changed;
CREATE TRIGGER steps_key_changed AFTER UPDATE OF status ON steps_agenda
WHEN NEW.concurrency_key IS NOT NULL AND NEW.status <> OLD.status AND NEW.status NOT IN ('dispatched', 'running')
BEGIN
    INSERT INTO steps_key_marks (concurrency_key) VALUES (NEW.concurrency_key);
END;

DROP TRIGGER IF EXISTS steps_key_left;
CREATE TRIGGER steps_key_left AFTER DELETE ON steps_agenda WHEN OLD.concurrency_key IS NOT NULL
BEGIN
    INSERT INTO steps_key_marks (concurrency_key) VALUES (OLD.concurrency_key);
END;

DROP TRIGGER IF EXISTS steps_created;
CREATE TRIGGER steps_created AFTER INSERT ON steps
BEGIN
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt)
    VALUES (NEW.id, NULL, NEW.state, NEW.reason, NEW.actor, NEW.created_at, NEW.attempts);
END;

DROP TRIGGER IF EXISTS steps_created_by_sql;
CREATE TRIGGER steps_created_by_sql AFTER INSERT ON steps WHEN NOT NEW.placed
BEGIN
    INSERT INTO steps_agenda (step_id, status, queue, action, rank) VALUES (NEW.id, 'new', coalesce(NEW.queue, 'default'), NEW.action, 1);
    -- Normalizes UUIDs, as the type of PostgreSQL does.
    UPDATE steps SET uuid = lower(uuid), workflow_id = lower(workflow_id), block_uuid = lower(block_uuid),
        child_block_uuid = lower(child_block_uuid)
    WHERE id = NEW.id;
END;

-- One trigger for all effects, because each trigger costs a microsecond per change. A batch runs the effects itself.
-- A statement that only releases a lease, or records that own code is done, sets `changed_from` to the unchanged state.
DROP TRIGGER IF EXISTS steps_changed;
CREATE TRIGGER steps_changed AFTER UPDATE OF state, lease_worker, own_code_done_at ON steps
WHEN NEW.batch IS OLD.batch AND (OLD.state <> NEW.state OR NEW.changed_from = OLD.state)
BEGIN
    SELECT CASE OLD.state || ' to ' || NEW.state
        @illegal_transitions
    END
    WHERE OLD.state <> NEW.state AND NOT @legal(OLD.state, NEW.state, NEW.actor);

    -- Clocks of two processes differ by some microseconds; the history of a step must still be in order.
    UPDATE steps SET updated_at = OLD.updated_at WHERE id = NEW.id AND NEW.updated_at < OLD.updated_at;

    @effects
END;

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
CREATE TRIGGER steps_created AFTER INSERT ON steps WHEN NEW.placed
BEGIN
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt)
    VALUES (NEW.id, NULL, NEW.state, NEW.reason, NEW.actor, NEW.created_at, NEW.attempts);
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", child, is_throttled, at, number)
    SELECT NULL, NEW.state, NEW.action, NEW.queue, NEW."group", NEW.parent_step_id IS NOT NULL, NEW.is_throttled, NEW.created_at, 1
    WHERE NEW.batch IS NULL; -- many at once: `store/engine/tallying.py`
END;

-- Dormant handlers, and steps that were created below one that can no longer run.
DROP TRIGGER IF EXISTS steps_created_in_trouble;
CREATE TRIGGER steps_created_in_trouble AFTER INSERT ON steps WHEN NEW.placed AND NEW.state = 'NotRunnable'
BEGIN
    INSERT INTO steps_trouble (step_id, state, action, reason, fingerprint, cause, ended_at) SELECT @trouble(NEW);
END;

DROP TRIGGER IF EXISTS steps_created_by_sql;
CREATE TRIGGER steps_created_by_sql AFTER INSERT ON steps WHEN NOT NEW.placed
BEGIN
    UPDATE steps SET placed = false WHERE id = NEW.id;
END;

-- What is checked and normalized in a row of plain SQL. It hangs on the UPDATE above because SQLite reserves the memory of a
-- trigger before it looks at its condition, and this one needs much (measured: a fifth of the cost of every INSERT).
DROP TRIGGER IF EXISTS steps_check_row_of_sql;
CREATE TRIGGER steps_check_row_of_sql AFTER UPDATE OF placed ON steps WHEN NOT NEW.placed
BEGIN
    SELECT RAISE(ABORT, 'a row of plain SQL begins as Pending: the engine writes state, lease and results')
    WHERE NEW.state <> 'Pending' OR NEW.lease_worker IS NOT NULL OR NEW.own_code_done_at IS NOT NULL
          OR NEW.compute_done_at IS NOT NULL OR NEW.stage IS NOT NULL OR NEW.dependencies <> 0;
    -- The largest number of all would leave none for later steps; the next one is what the database itself gives out.
    SELECT RAISE(ABORT, 'the database numbers the steps: leave id out')
    WHERE NEW.id < 1 OR NEW.id > 1 + max(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'steps'), 0),
                                         coalesce((SELECT max(id) FROM steps WHERE id < NEW.id), 0));
    SELECT RAISE(ABORT, 'attempts, retries, not_completed, rescues or double_checks is out of range')
    WHERE max(NEW.attempts, NEW.retries, NEW.not_completed, NEW.rescues, NEW.double_checks) > 2147483647
       OR min(NEW.attempts, NEW.retries, NEW.not_completed, NEW.rescues, NEW.double_checks) < -2147483648;
    SELECT RAISE(ABORT, 'checkpoint or response is not JSON')
    WHERE NOT json_valid(coalesce(NEW.checkpoint, 'null')) OR NOT json_valid(coalesce(NEW.response, 'null'));
    -- What the types and the foreign key of PostgreSQL refuse. (A connection may have turned foreign keys off.)
    SELECT RAISE(ABORT, 'parent_step_id is not the id of a step')
    WHERE NEW.parent_step_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM steps WHERE id = NEW.parent_step_id);
    SELECT RAISE(ABORT, 'uuid, workflow_id, block_uuid or child_block_uuid is not a UUID')
    WHERE @uuid(NEW.uuid) IS NULL OR NEW.workflow_id IS NOT NULL AND @uuid(NEW.workflow_id) IS NULL
       OR NEW.block_uuid IS NOT NULL AND @uuid(NEW.block_uuid) IS NULL
       OR NEW.child_block_uuid IS NOT NULL AND @uuid(NEW.child_block_uuid) IS NULL;
    SELECT RAISE(ABORT, 'index, max_retries or concurrency_limit is not a whole number')
    WHERE @whole(NEW."index") IS NULL AND NEW."index" IS NOT NULL
       OR @whole(NEW.max_retries) IS NULL AND NEW.max_retries IS NOT NULL
       OR @whole(NEW.concurrency_limit) IS NULL AND NEW.concurrency_limit IS NOT NULL;
    SELECT RAISE(ABORT, 'dispatch_after, created_at or updated_at is not a moment between the years 1 and 9999')
    WHERE NEW.dispatch_after IS NOT NULL AND @moment(NEW.dispatch_after) IS NULL
       OR @moment(NEW.created_at) IS NULL OR @moment(NEW.updated_at) IS NULL;
    UPDATE steps SET uuid = @uuid(uuid), workflow_id = @uuid(workflow_id), block_uuid = @uuid(block_uuid),
        child_block_uuid = @uuid(child_block_uuid), "index" = @whole("index"), max_retries = @whole(max_retries),
        concurrency_limit = @whole(concurrency_limit), dispatch_after = @moment(dispatch_after),
        created_at = @moment(created_at), updated_at = @moment(updated_at)
    WHERE id = NEW.id;
    INSERT INTO step_transitions (step_id, from_state, to_state, reason, actor, at, attempt)
    VALUES (NEW.id, NULL, NEW.state, NEW.reason, NEW.actor, @moment(NEW.created_at), NEW.attempts);
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", child, is_throttled, at, number)
    VALUES (NULL, NEW.state, NEW.action, NEW.queue, NEW."group", NEW.parent_step_id IS NOT NULL, NEW.is_throttled, @moment(NEW.created_at), 1);
    INSERT INTO steps_agenda (step_id, status, queue, action, rank) VALUES (NEW.id, 'new', coalesce(NEW.queue, 'default'), NEW.action, 1);
END;

-- A time that plain SQL gives to a row before it is placed, or later in another form than the engine's (the table checks that one).
DROP TRIGGER IF EXISTS steps_planned_by_sql;
CREATE TRIGGER steps_planned_by_sql AFTER UPDATE OF dispatch_after ON steps
WHEN NEW.dispatch_after IS NOT NULL AND (NOT NEW.placed OR length(NEW.dispatch_after) <> 26)
BEGIN
    SELECT RAISE(ABORT, 'dispatch_after is not a moment between the years 1 and 9999') WHERE @moment(NEW.dispatch_after) IS NULL;
    UPDATE steps SET dispatch_after = @moment(dispatch_after) WHERE id = NEW.id;
END;

-- Plain SQL changed when a step runs (or runs again), or as what: the agenda is made to agree. (What the engine itself
-- changes agrees already.) The time is that of the row: it may have been normalized in between.
DROP TRIGGER IF EXISTS steps_replanned;
CREATE TRIGGER steps_replanned AFTER UPDATE OF action, queue, priority, dispatch_after, concurrency_key ON steps
WHEN NEW.placed AND OLD.placed AND NEW.state = OLD.state AND NEW.state IN @unfinished
     AND (NEW.action <> OLD.action OR NEW.queue <> OLD.queue OR NEW.priority <> OLD.priority
          OR NEW.dispatch_after IS NOT OLD.dispatch_after OR NEW.concurrency_key IS NOT OLD.concurrency_key)
BEGIN
    UPDATE steps_agenda
    SET action = NEW.action, queue = NEW.queue, rank = CASE NEW.priority WHEN 'high' THEN 0 ELSE 1 END, concurrency_key = NEW.concurrency_key,
        key_blocked = CASE WHEN NEW.concurrency_key IS OLD.concurrency_key THEN key_blocked ELSE NEW.concurrency_key IS NOT NULL END
    WHERE step_id = NEW.id;
    UPDATE steps_agenda SET status = 'unchecked', due_at = (SELECT s.dispatch_after FROM steps s WHERE s.id = NEW.id)
    WHERE step_id = NEW.id AND status IN ('open', 'delayed', 'unchecked') AND NEW.dispatch_after IS NOT OLD.dispatch_after;
    INSERT INTO steps_key_marks (concurrency_key)
    SELECT k.concurrency_key FROM (SELECT NEW.concurrency_key AS concurrency_key UNION SELECT OLD.concurrency_key) AS k
    WHERE k.concurrency_key IS NOT NULL AND NEW.concurrency_key IS NOT OLD.concurrency_key;
    UPDATE steps_unsettled SET action = NEW.action WHERE step_id = NEW.id AND action <> NEW.action;
END;

-- Plain SQL took retries away from a step that can be claimed: the next tick checks it again, and fails it.
DROP TRIGGER IF EXISTS steps_exhausted_by_sql;
CREATE TRIGGER steps_exhausted_by_sql AFTER UPDATE OF retries, max_retries ON steps
WHEN NEW.retries > NEW.max_retries AND NEW.state = 'Pending' AND OLD.state = 'Pending'
BEGIN
    UPDATE steps_agenda SET status = 'unchecked' WHERE step_id = NEW.id AND status IN ('open', 'delayed');
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

-- What is counted under another action, queue, group or parent from now on.
DROP TRIGGER IF EXISTS steps_recounted;
CREATE TRIGGER steps_recounted AFTER UPDATE OF action, queue, "group", parent_step_id ON steps
WHEN NEW.action <> OLD.action OR NEW.queue IS NOT OLD.queue OR NEW."group" IS NOT OLD."group" OR (NEW.parent_step_id IS NULL) <> (OLD.parent_step_id IS NULL)
BEGIN
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, number)
    VALUES (OLD.state, NULL, OLD.action, OLD.queue, OLD."group", OLD.hostname, OLD.parent_step_id IS NOT NULL, OLD.is_throttled, 1),
           (NULL, OLD.state, NEW.action, NEW.queue, NEW."group", OLD.hostname, NEW.parent_step_id IS NOT NULL, OLD.is_throttled, 1);
END;

DROP TRIGGER IF EXISTS steps_deleted;
CREATE TRIGGER steps_deleted AFTER DELETE ON steps
BEGIN
    INSERT INTO steps_tally (from_state, to_state, action, queue, "group", hostname, child, is_throttled, number)
    VALUES (OLD.state, NULL, OLD.action, OLD.queue, OLD."group", OLD.hostname, OLD.parent_step_id IS NOT NULL, OLD.is_throttled, 1);
    DELETE FROM steps_trouble WHERE step_id = OLD.id;
END;

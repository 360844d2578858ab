-- Answers to gates, and the history of declared workflows.

DROP TRIGGER IF EXISTS step_answer_checked;
CREATE TRIGGER step_answer_checked BEFORE INSERT ON step_answers
BEGIN
    SELECT RAISE(ABORT, 'the gate has been answered already') WHERE EXISTS (
        SELECT 1 FROM step_answers WHERE step_id = NEW.step_id);
    SELECT RAISE(ABORT, 'the step is not an open gate') WHERE NOT EXISTS (
        SELECT 1 FROM steps_agenda WHERE step_id = NEW.step_id AND status = 'gate');
END;

-- The next tick applies the answer: any moment that has passed, by whatever clock, makes the gate due.
DROP TRIGGER IF EXISTS step_answer_given;
CREATE TRIGGER step_answer_given AFTER INSERT ON step_answers
BEGIN
    UPDATE steps_agenda SET due_at = (SELECT created_at FROM steps WHERE id = NEW.step_id)
    WHERE step_id = NEW.step_id AND status = 'gate';
END;

DROP TRIGGER IF EXISTS steps_workflow_created;
CREATE TRIGGER steps_workflow_created AFTER INSERT ON steps_workflows
BEGIN
    INSERT INTO steps_workflow_transitions (workflow_id, from_state, to_state, reason, actor, at)
    VALUES (NEW.id, NULL, NEW.state, NEW.reason, NEW.actor, NEW.created_at);
END;

DROP TRIGGER IF EXISTS steps_workflow_changed;
CREATE TRIGGER steps_workflow_changed AFTER UPDATE OF state ON steps_workflows WHEN NEW.state <> OLD.state
BEGIN
    INSERT INTO steps_workflow_transitions (workflow_id, from_state, to_state, reason, actor, at)
    VALUES (NEW.id, OLD.state, NEW.state, NEW.reason, NEW.actor, NEW.updated_at);
END;

-- Answers to gates, and the history of declared workflows.

CREATE OR REPLACE FUNCTION step_answer_checked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- The next tick applies the answer: any moment that has passed, by whatever clock, makes the gate due. The lock on the
    -- row makes a second answer wait for the first.
    UPDATE steps_agenda SET due_at = (SELECT created_at FROM steps WHERE id = NEW.step_id)
    WHERE step_id = NEW.step_id AND status = 'gate';
    IF EXISTS (SELECT 1 FROM step_answers WHERE step_id = NEW.step_id) THEN
        RAISE EXCEPTION 'the gate has been answered already' USING ERRCODE = 'ZS002';
    ELSIF NOT EXISTS (SELECT 1 FROM steps_agenda WHERE step_id = NEW.step_id AND status = 'gate') THEN
        RAISE EXCEPTION 'the step is not an open gate' USING ERRCODE = 'ZS002';
    END IF;
    RETURN NEW;
END $$;
DROP TRIGGER IF EXISTS step_answer_checked ON step_answers;
CREATE TRIGGER step_answer_checked BEFORE INSERT ON step_answers FOR EACH ROW EXECUTE FUNCTION step_answer_checked();

CREATE OR REPLACE FUNCTION steps_workflow_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO steps_workflow_transitions (workflow_id, from_state, to_state, reason, actor, at)
    VALUES (NEW.id, CASE TG_OP WHEN 'UPDATE' THEN OLD.state END, NEW.state, NEW.reason, NEW.actor, NEW.updated_at);
    RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS steps_workflow_created ON steps_workflows;
CREATE TRIGGER steps_workflow_created AFTER INSERT ON steps_workflows FOR EACH ROW EXECUTE FUNCTION steps_workflow_changed();
DROP TRIGGER IF EXISTS steps_workflow_changed ON steps_workflows;
CREATE TRIGGER steps_workflow_changed AFTER UPDATE OF state ON steps_workflows FOR EACH ROW
    WHEN (NEW.state <> OLD.state) EXECUTE FUNCTION steps_workflow_changed();
